"""What an estimator can know along a run, and what that leaves of the residuals.

Readings are slopes of the state at the start: a sensor with slope h at step k sees h Phi of it, Phi the slope of the
motion up to k. Only readings count that come within the run, and of those that may be dropped the mean share. A
direction in which all of these together say less than a thousandth of what is known at the start is not observed: there
the estimate keeps the error that it has, and what acts beside the equations adds to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.analysis.linear_system import slope
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.estimation import Estimation
from servonode.closed_loop.static_checks import Examination, Level
from servonode.controllers import ServoLaw
from servonode.estimators.kalman import ExtendedKalmanFilter
from servonode.record.run import Run

LOOKS = 500  # rows of the run at which readings are looked at
UNSEEN = 1e-3  # of what is known at the start: readings that say less of a direction do not observe it
PART = 0.05  # of a direction, from which on a state belongs to it
FADES = 0.1  # a difference that the motion itself reduces to this share does not drift
MATTERS = 1e-3  # share of a residual's slope, from which on a direction matters to it
GROWS = 2.0  # times the initial standard deviation of a residual, from which on a warning names it
REJECTED = 0.05  # of a sensor's readings: a gate that rejects more has been told too small a noise, or is too narrow
SURE = 5.0  # NEES in units of its dimensions from which on an estimate is surer than it is right


@dataclass(frozen=True)
class Unobserved:
    """The directions that the sensors in use do not see.

    directions (n, d): of the state at the start, in units of what is known of it, those that do not fade by themselves.
    groups: the states that are in them, those together that only move together. remedies: sensors not in use, each of
    which would see one. scale (n,): what is known at the start. rank: how many directions are seen.
    """

    directions: Array
    groups: tuple[tuple[str, ...], ...]
    remedies: tuple[str, ...]
    scale: Array
    rank: int


def judge_estimate(closed_loop: ClosedLoop, ideal: Run, run: Run, found: Examination) -> None:
    """Add what is observed along the run `ideal`, made without estimator, and how the run with it went."""
    estimation, law = closed_loop.estimation, closed_loop.known_control.law
    assert estimation is not None
    unobserved = unobserved_along(closed_loop, estimation, ideal)
    spread, J = predicted_residuals(closed_loop, estimation, law, ideal)
    names = [each.name for each in law.description.residuals]
    sensors = estimation.settings.sensors
    found.numbers["estimator"] = {
        "sensors": [sensors[i].name for i in estimation.settings.used],
        "rank": unobserved.rank,
        "unobserved": [list(group) for group in unobserved.groups],
        "residual_std": {name: [float(spread[0, i]), float(spread[-1, i])] for i, name in enumerate(names)},
    }
    for i, name in enumerate(names):
        _tell_spread(name, spread[:, i], abs(float(ideal.residual[name][0])), found)
    _tell_unobserved(unobserved, names, J, found)
    _tell_limits(closed_loop, unobserved, run, found)
    _tell_run(run, found)
    _tell_gate(closed_loop, run, found)


def unobserved_along(closed_loop: ClosedLoop, estimation: Estimation, run: Run) -> Unobserved:
    """The directions that the sensors in use do not see along a run."""
    settings, observer = estimation.settings, estimation.observer
    n = observer.n
    scale = np.where(settings.deviation > 0, settings.deviation, 1.0)
    seen, moved = _slopes_by_start(closed_loop, estimation, run)
    rows = seen * scale / np.sqrt(np.where(settings.variances > 0, settings.variances, 1.0))[:, None]
    directions, rank = _unseen(rows[:, settings.used])
    stays = np.linalg.svd((moved * scale) @ directions / scale[:, None], full_matrices=False)
    kept = stays[1] > FADES
    directions = directions @ stays[2][kept].T
    groups = _groups(directions, observer.machine.description.columns)
    rest = [i for i in range(observer.n_z) if i not in settings.used]
    remedies = [i for i in rest if _unseen(rows[:, (*settings.used, i)])[1] > rank]
    held = np.linalg.matrix_rank(observer.normals(0.0, closed_loop.start)) if observer.machine.description.held else 0
    return Unobserved(
        directions, groups, tuple(settings.sensors[i].name for i in remedies), scale, min(rank, n - int(held))
    )


def _slopes_by_start(closed_loop: ClosedLoop, estimation: Estimation, run: Run) -> tuple[Array, Array]:
    """The slopes of all readings by the state at the start (looks, n_z, n), and those of the last state (n, n)."""
    observer, step_ns = estimation.observer, closed_loop.launch.step_ns
    n, every = observer.n, max(1, len(run.t) // LOOKS)
    x, u, phi = np.zeros(n + 1), np.zeros(observer.machine.n_inputs), np.eye(n)
    tangent = observer.along(0.0, closed_loop.start)
    states, inputs = np.array(list(run.state.values())), run.inputs
    z, H, found = np.zeros(observer.n_z), np.zeros((observer.n_z, n)), []
    readings, came = _readings(closed_loop, run), np.zeros(observer.n_z, dtype=np.int64)
    for i in range(len(run.t)):
        x[:-1], before = states[:, i], u
        if i % every == 0:
            observer.measured(float(run.t[i]), x, before, z, H)
            found.append((readings[i] > came)[:, None] * (H @ phi @ tangent))
            came = readings[i]
        u = np.ascontiguousarray(inputs[:, i])
        if i + 1 < len(run.t):
            observer.transition(int(run.k[i]), int(run.k[i + 1] - run.k[i]), step_ns, x, u, phi)
    return np.array(found), phi @ tangent


def _readings(closed_loop: ClosedLoop, run: Run) -> Array:
    """How many readings of each sensor (rows, n_z) were measured up to each row and are expected within the run."""
    assert closed_loop.sensing is not None
    last, effects = int(run.k[-1]), closed_loop.sensing.effects
    return np.array([[each.expected(k, last) for each in effects] for k in run.k.tolist()])


def _unseen(rows: Array) -> tuple[Array, int]:
    """The directions (n, d) that rows (looks, sensors, n) do not see, and how many they do."""
    table = rows.reshape(-1, rows.shape[-1])
    _, values, directions = np.linalg.svd(np.linalg.qr(table, mode="r"))
    rank = int((values > UNSEEN).sum())
    return directions[rank:].T, rank


def _groups(directions: Array, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The states in the directions, those together that only move together."""
    together = np.abs(directions @ directions.T)
    left = [i for i in range(len(names)) if together[i, i] > PART] if directions.size else []
    groups: list[tuple[str, ...]] = []
    while left:
        group, waiting = [], [left[0]]
        while waiting:
            i = waiting.pop()
            if i in left:
                left.remove(i)
                group.append(i)
                waiting += [j for j in left if together[i, j] > PART]
        groups.append(tuple(names[i] for i in sorted(group)))
    return tuple(groups)


def predicted_residuals(
    closed_loop: ClosedLoop, estimation: Estimation, law: ServoLaw, run: Run
) -> tuple[Array, Array]:
    """Standard deviations of the residuals by what the filter knows along a run (looks, n_s), and their slopes by the
    states at its end (n_s, n)."""
    settings, observer, step_s = estimation.settings, estimation.observer, closed_loop.launch.step_ns / 1e9
    kalman, n = ExtendedKalmanFilter(observer, settings), observer.n
    x, (z, missed, squares) = np.zeros(n + 1), np.zeros((3, observer.n_z))
    P, states, inputs = np.diag(settings.deviation**2), np.array(list(run.state.values())), run.inputs
    readings, came = _readings(closed_loop, run), np.zeros(observer.n_z, dtype=np.int64)
    every, spread, J = max(1, len(run.t) // LOOKS), [], np.zeros((law.n_s, n))
    u = np.zeros(observer.machine.n_inputs)
    for i in range(len(run.t)):
        x[:-1], k = states[:, i], int(run.k[i])
        due = [j for j in settings.used if readings[i, j] > came[j]]
        came = readings[i]
        if due:
            observer.measure(k * step_s, x, u, z)
            kalman.correct(k * step_s, x, u, P, due, z, missed, squares)
        if i % every == 0 or i + 1 == len(run.t):
            J = _slopes(closed_loop, law, run, i)
            spread.append(np.sqrt(np.maximum(np.einsum("si,ij,sj->s", J, P, J), 0.0)))
        u = np.ascontiguousarray(inputs[:, i])
        if i + 1 < len(run.t):
            kalman.predict(k, int(run.k[i + 1]) - k, x, u, P)
    return np.array(spread), J


def _slopes(closed_loop: ClosedLoop, law: ServoLaw, run: Run, i: int) -> Array:
    """The slopes of the residuals by the states at a row (n_s, n)."""
    if law.description.own:  # its residuals at other states are not known
        return np.zeros((law.n_s, len(run.state)))
    x = np.array([values[i] for values in run.state.values()])
    own = np.array([values[i] for values in run.program_state.values()])
    t, answer = float(run.goal_t[i]), law.answer()
    y = closed_loop.goal(t, own)

    def residuals(at: Array) -> Array:
        law.compute(t, at, y, answer)
        return answer.residuals.copy()

    return slope(residuals, x, np.full(len(x), 1e-6))


def _tell_spread(name: str, spread: Array, begins: float, found: Examination) -> None:
    """How well a residual that begins with this size is known along the run."""
    first, last = float(spread[0]), float(spread[-1])
    text = f"known to {last:.2g} at the end of the run according to the filter, {first:.2g} initially"
    if last > max(GROWS * first, begins):
        text += ": along the run that is wanted the readings say too little of it, so an error grows until the machine "
        found.add("warn", name, f"{text}leaves that run; add a sensor, or have it move so that its sensors see more")
    else:
        found.add("good", name, text)


def _tell_unobserved(unobserved: Unobserved, names: Sequence[str], J: Array, found: Examination) -> None:
    """Which states the sensors do not see, and whether the goal needs them."""
    used = ", ".join(found.numbers["estimator"]["sensors"])
    if not unobserved.groups:
        found.add("good", "estimator", f"every state is observed along the run by {used}")
        return
    groups = ", ".join(f"{' and '.join(group)} together" if group[1:] else group[0] for group in unobserved.groups)
    count = unobserved.directions.shape[1]
    text = f"not observed by {used}: {groups} ({count} direction{'s' if count > 1 else ''} in which an error stays)"
    scaled = J * unobserved.scale
    whole = np.linalg.norm(scaled, axis=1)
    share = np.linalg.norm(scaled @ unobserved.directions, axis=1)
    needed = [name for name, a, b in zip(names, share, whole, strict=True) if a > MATTERS * b]
    found.numbers["estimator"]["needed"] = needed
    if not needed:
        found.add("good", "estimator", f"{text}; the goal does not depend on them")
        return
    remedy = f"; {', '.join(unobserved.remedies)} would see some of them" if unobserved.remedies else ""
    what = f"the goal ({', '.join(needed)}) depends on them: it is met only as well as the start is known"
    found.add("warn", "estimator", f"{text}, and {what}{remedy}")


def _tell_limits(closed_loop: ClosedLoop, unobserved: Unobserved, run: Run, found: Examination) -> None:
    """What the limits on the standard deviations do, where the plant's safety stands on the estimate."""
    terms = closed_loop.device_estimate
    if terms is None:
        return
    limits = dict(zip(terms.columns, terms.most, strict=True))
    drifting = [name for group in unobserved.groups for name in group if limits[name] == np.inf]
    if drifting:
        text = f"std_limit defines none for {', '.join(drifting)}, of which an error stays: the plant stays armed "
        text += "however little is known of them; state how well the machine must know its place"
        found.add("warn", "estimator", text)
    if run.estimate is None:
        return
    for name, most in limits.items():
        beyond = np.flatnonzero(run.estimate.std[name] > most)
        if len(beyond):
            t, last = run.t[beyond[0]], float(np.nanmax(run.estimate.std[name]))
            text = f"{name} is known worse than its std_limit of {most:g} from t = {t:.3g} s on (at worst {last:.2g}): "
            text += "the run ends there by a fault; add a sensor that observes it, or raise std_limit"
            found.add("refuse", "estimator", text)


def _tell_run(run: Run, found: Examination) -> None:
    """How far the estimate was from the truth in the run on it."""
    estimate = run.estimate
    if estimate is None or not len(run.t):
        return
    numbers: dict[str, Any] = found.numbers["estimator"]
    nees = numbers["nees"] = estimate.nees_mean
    numbers["nis"] = estimate.nis_mean
    late = slice(-max(len(run.t) // 4, 1), None)
    numbers["true_residual"] = {name: float(np.max(np.abs(v[late]))) for name, v in estimate.residual.items()}
    level: Level = "warn" if nees > SURE else "good"
    text = f"squared errors of the estimate were {nees:.2g} times what the filter expected, those of the readings "
    text += f"{numbers['nis']:.2g} times"
    if level == "warn":
        text += ": it is surer than it is right; give a larger initial_std or process_noise"
    found.add(level, "estimator", text)


def _tell_gate(closed_loop: ClosedLoop, run: Run, found: Examination) -> None:
    """How many readings the gate rejected in the run."""
    if run.estimate is None or not run.estimate.rejected or not len(run.t):
        return
    assert closed_loop.sensing is not None
    last, total = int(run.k[-1]), run.estimate.rejected_total
    given = {each.description.name: each.expected(last, last) for each in closed_loop.sensing.effects}
    text = ", ".join(f"{count} of {given[name]} readings of {name}" for name, count in total.items())
    many = [name for name, count in total.items() if count > REJECTED * given[name]]
    remedy = f": raise the noise of {', '.join(many)}, process_noise or gate" if many else ""
    found.add("warn" if many else "good", "estimator", f"the gate rejected {text}{remedy}")
