"""The parts of a closed loop's compiled equations that integrate them, as text: steps, events, states at times, rows.

They stand around the text of `dop853`, after the rates of `equations_source`, which gives them what is in braces.
"""

STEPS_TEXT = """

def stopped(t: f64, y: f64[:]{declared}, dy: f64[:]) -> bool:
    \"\"\"Whether the law or the machine's motion stops at a state.\"\"\"
    set_goal(t{given})
    if closed(t, y, 0{given}, dy) != 0:
        return True
{dead}    return False


def apart(m: i64, y: f64[:], weights: f64[:]) -> bool:
    \"\"\"Whether a copy has left its distance from the state.\"\"\"
    for j in range(1, m // n):
        size = 0.0
        for i in range(n):
            change = (y[j*n + i] - y[i])*weights[i]
            size += change*change
        size = sqrt(size)
        if size > {most!r} or size < {least!r}:
            return True
    return False


def steps(
    most: i64, end: f64, rtol: f64, atol: f64, fastest: f64, stops: i64, solver: f64[4], m: i64,
    y: f64[:], y_old: f64[:], f: f64[:], K: f64[:], beside: f64[:], dy: f64[:],
    weights: f64[:], velocities: f64[:]{declared}, done: i64[1], times: f64[:], states: f64[:]
) -> i64:
    \"\"\"At most so many accepted steps, told in times and states, to the end or to what ends them before.

    weights: of the copies' distances from the state, whose sizes are kept between {least:g} and {most:g}; velocities: 1
    for each entry that ends them where it is faster than `fastest`.
    \"\"\"
    done[0] = 0
    code = first_length(solver, m, end, 1e300, rtol, atol, y, f, beside, dy{given})
    while code == {good} and done[0] < most and solver[0] < end:
        code = step(solver, m, end, 1e300, rtol, atol, y, y_old, f, K, beside, dy{given})
        if code == {good}:
            times[done[0]] = solver[0]
            for i in range(m):
                states[done[0]*m + i] = y[i]
            done[0] += 1
            if stops and stopped(solver[0], y{given}, dy):
                return {stopped}
            for i in range(n):
                if velocities[i]*fabs(y[i]) > fastest:
                    return {huge}
            if columns == 0 and apart(m, y, weights):
                return {apart}
    if code == {good} and solver[0] < end:
        return {again}
    return code
"""
EVENT_TEXT = """

def event(which: i64, t: f64, y: f64[:]{declared}) -> f64:
    \"\"\"The value of an event at a state; nan where the law stops.\"\"\"
    moved = empty(n)
{events}    return 1.0


"""
EVENT_TEXTS = {
    "fault": """\
    if which == {i}:
        for i in range(n_x):
            x[i] = y[i]
        return -1.0 if faults(t, x, c) != 0 else 1.0
""",
    "determinant": """\
    if which == {i}:
        return out[{determinant}] if rates(t, n, y{given}, moved) == 0 else sqrt(-1.0)
""",
    "jump": """\
    if which >= {i}:
        m = empty(n_jumps)
        for i in range(n_x):
            x[i] = y[i]
        margins(t, x, c, m)
        return m[which - {i}]
""",
}
SLOPE_TEXT = """

def slope(j: i64, t: f64, y: f64[:], dy: f64[:]{declared}) -> f64:
    \"\"\"The rate of the margin of a jump.\"\"\"
    m = empty(n_jumps)
    for i in range(n_x):
        x[i] = y[i]
        dx[i] = dy[i]
    margin_rates(t, x, dx, c, m)
    return m[j]


"""
WAIT_TEXT = """\
            if i >= {jump}:
                waits = waiting[i - {jump}]
                low, high = slope(i - {jump}, since, y_old, K{given}), slope(i - {jump}, until, y, f{given})
                up = up and waits == 0.0 and (value < 0.0 or low >= 0.0 and after > 0.0)
                dips = low < 0.0 and after >= 0.0 and (waits == 1.0 or value >= 0.0)
                if low*high < 0.0 and (dips or low > 0.0 and value < 0.0 and after < 0.0):
                    if not known and dense(solver, n, y, y_old, f, K, F, beside, dy{given}) != {good}:
                        return {refused}
                    known = True
                    turn = since + (until - since)*low/(low - high)
                    interpolate(turn, solver, n, y_old, F, beside)
                    turned = event(i, turn, beside{given})
                    if dips and turned < 0.0:
                        since, value, up = turn, turned, True
                    elif not dips and turned >= 0.0:
                        until, upper, up = turn, turned, True
                if after < 0.0 or dips and up:
                    waiting[i - {jump}] = 0.0
                stays = not up and after > atol and (waits == 1.0 or dips and value <= atol)
                if stays:
                    waiting[i - {jump}] = 1.0
"""
SOLVE_TEXT = """

def refused(solver: f64[4], y: f64[:], beside: f64[:]) -> i64:
    for i in range(n):
        beside[i] = y[i]
    solver[3] = solver[0]
    return {refused}


def solve(
    longest: f64, rtol: f64, atol: f64, solver: f64[4],
    y: f64[:], y_old: f64[:], f: f64[:], K: f64[:], F: f64[:], beside: f64[:], dy: f64[:], before: f64[n_events],
    waiting: f64[n_jumps]{declared}, count: i64, times: f64[:], done: i64[1], found: f64[:]
) -> i64:
    \"\"\"The states at all times from the one that is `done` on, up to the first event.\"\"\"
    end = times[count - 1]
    taken = 0
    if solver[0] < end:
        code = first_length(solver, n, end, longest, rtol, atol, y, f, beside, dy{given})
        if code != {good}:
            return code
    for i in range(n_events):
        before[i] = event(i, solver[0], y{given})
        if not isfinite(before[i]):
            return refused(solver, y, beside)
    while solver[0] < end:
        if taken == {pause}:
            return {again}
        taken += 1
        code = step(solver, n, end, longest, rtol, atol, y, y_old, f, K, beside, dy{given})
        if code != {good}:
            return code
        happened = -1
        at = solver[0]
        known = False
        for i in range(n_events):
            after = event(i, solver[0], y{given})
            if not isfinite(after):
                return refused(solver, y, beside)
            since, until, value, upper, stays = solver[2], solver[0], before[i], after, False
            up = value <= 0.0 and after >= 0.0
{wait}            if stays or up or (i < {jump} and value >= 0.0 and after <= 0.0):
                if not known and dense(solver, n, y, y_old, f, K, F, beside, dy{given}) != {good}:
                    return {refused}
                known = True
                where = until
                if not stays:
                    where = root(i, since, until, value, upper, solver, n, y_old, F, beside{given})
                if not isfinite(where):
                    return {refused}
                if happened < 0 or where < at:
                    happened = i
                    at = where
            before[i] = after
        while done[0] < count and times[done[0]] <= at:
            if not known and dense(solver, n, y, y_old, f, K, F, beside, dy{given}) != {good}:
                return {refused}
            known = True
            interpolate(times[done[0]], solver, n, y_old, F, beside)
            for i in range(n):
                found[done[0]*n + i] = beside[i]
            done[0] += 1
        if happened >= 0:
            interpolate(at, solver, n, y_old, F, y)
            solver[0] = at
            solver[1] = 0.0
            return {event} + happened
    while done[0] < count:
        for i in range(n):
            found[done[0]*n + i] = y[i]
        done[0] += 1
    return {good}
"""
TOLD_TEXT = """

def told(
    count: i64, k: i64[:], times: f64[:], states: f64[:], y: f64[:], dy: f64[:]{declared},
    rows: f64[:, n_row], answers: f64[:, n_answer]
) -> i64:
    \"\"\"Fill the rows of states at so many steps; the row at which the law stops, or -1.\"\"\"
    for j in range(count):
        for i in range(n):
            y[i] = states[j*n + i]
        if rates(times[j], n, y{given}, dy) != 0:
            return j
        rows[j, {row_step}] = k[j]
        for i in range(n_x):
            rows[j, {row_x} + i] = y[i]
        for i in range(n_tau):
            rows[j, {row_inputs} + i] = u[i]
{answers}    return -1
"""
