"""What a run holds, and its answers: goal, law, predictor, limits of the value."""

from servonode.kernels.lib.given import advance_believed, faults, follow, law
from servonode.kernels.lib.names import *
from servonode.kernels.lib.nearest import CLIPPED


class Run:
    """A run. What is not given begins at zero."""

    steps: int
    per_period: int
    step_ns: int
    every: int  # steps of a row
    period: float  # s
    x: f64[n_x]
    u: f64[n_tau]
    c: f64[n_constants]
    bounds: f64[bounded, n_tau]
    depth: int  # of the queue: one more than the control periods after which inputs act
    queue: f64[any_size, n_tau]
    c_law: f64[n_c_law]
    K: f64[n_gains, n_s, n_s]
    targets: f64[any_size, n_targets]  # at each control instant, and beyond the end as far as the predictor looks
    signals: f64[any_size, n_signals]
    y: f64[n_y]
    out: f64[n_out]
    f: f64[n_s]  # residuals of the measured state, where the law sees a predicted one
    memory: f64[n_memory]
    determinant: f64[one]
    clipped: i64[one]  # control periods in a row for which inputs that keep all were sought in vain
    most_clipped: int
    predicts: int
    x_ahead: f64[n_x]
    c_believed: f64[n_c_believed]
    rows: f64[any_size, n_row]
    answers: f64[any_size, n_answer]
    progress: i64[n_progress]


class Effects:
    """What drives, sensors and limits make of a run, where they are not perfect."""

    drive: f64[drive_rows, n_tau]
    depths: i64[n_tau]
    pipe: f64[any_size, n_tau]
    demand: f64[n_tau]
    slewed: f64[n_tau]
    dynamic: int
    errors: f64[error_rows, n_state]
    n_late: int
    late: f64[any_size, n_x]  # states that the sensors have not yet shown
    n_readings: int
    noise: f64[any_size, n_state]  # of the next readings
    lost: i64[any_size]  # which of them
    measured: f64[n_x]
    believed: f64[believed_rows, n_state]
    least: float
    before: f64[n_state]
    since: f64[one]
    publish_every: int  # steps of a reading that is judged, 0: none is
    power: float
    newest: f64[n_tau]
    sent: f64[any_size, n_tau]  # answers as they were sent, before the plant's limits
    due: i64[any_size]  # the control instant at which each acts
    repeats: int  # allowed in a row, -1: any number
    counts: i64[n_counts]
    state: i64[n_run_state]


def set_goal(run: Run, k: int) -> float:
    """Set targets and signals to those of step k of the goal; its time [s]."""
    at = k // run.per_period
    for i in range(n_targets):
        run.y[targets_at + i] = run.targets[at, i]
    for i in range(n_signals):
        run.y[signals_at + i] = run.signals[at, i]
    return k * run.step_ns / 1e9


def predict(run: Run, k: int, goal: int, x: f64[n_x], sent: f64[any_size, n_tau]) -> int:
    """Evaluate the law at the state and the goal when its inputs will act, by what was sent; its status."""
    delay = run.depth - 1
    for i in range(n_x):
        run.x_ahead[i] = x[i]
    for i in range(delay):
        inputs = (k // run.per_period + i) % run.depth
        advance_believed(k + i * run.per_period, run.per_period, run.step_ns, run.x_ahead, sent[inputs], run.c_believed)
    t = set_goal(run, goal + delay * run.per_period)
    return law(t, run.x_ahead, run.y, run.c_law, run.K, run.out)


def answer(run: Run, k: int, origin: int, n: int, x: f64[n_x], sent: f64[any_size, n_tau]) -> bool:
    """Answer a state: the law's inputs, within their limits, are sent; whether the law has some.

    origin: the step at which the goal's time began. n: how many states have been answered before.
    """
    goal = k - origin
    t = set_goal(run, goal)
    if follows:
        passed = t - ((run.answers[n - 1, answer_step] - origin) * run.step_ns / 1e9 if n > 0 else 0.0)
        follow(t, x, run.y, run.c_law, passed, run.memory)
    if watched and not imperfect and faults(t, x, run.c) != 0:
        return False
    if law(t, x, run.y, run.c_law, run.K, run.out) != 0:
        return False
    if tells_crossings:
        if run.out[determinant_at] * run.determinant[0] < 0.0:
            return False
        run.determinant[0] = run.out[determinant_at]
    run.answers[n, answer_step] = k
    for i in range(n_recorded):
        run.answers[n, answer_recorded + i] = run.out[recorded_at + i]
    for i in range(n_own):
        run.answers[n, answer_states + i] = run.y[states_at + i]
    run.progress[2] = n + 1
    for i in range(n_integrals):
        run.f[i] = run.out[residuals_at + i]
    if run.predicts and predict(run, k, goal, x, sent) != 0:
        return False
    for i in range(n_integrals):
        run.y[integrals_at + i] += run.period * run.f[i]
    if keeps:
        run.clipped[0] = run.clipped[0] + 1 if run.out[keeping_at] == CLIPPED else 0
        if run.clipped[0] > run.most_clipped:
            return False
    at = (k // run.per_period + run.depth - 1) % run.depth
    for i in range(n_tau):
        sent[at, i] = min(max(run.out[i], -run.bounds[0, i]), run.bounds[0, i])
    return True
