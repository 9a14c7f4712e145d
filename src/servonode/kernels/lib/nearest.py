"""The inputs nearest to those of a law that keep rows A tau >= b and limits: strictly by levels, least squares in each.

Each level is a strictly convex problem in the directions that the levels before leave free, solved by the dual active
set method of Goldfarb and Idnani (1983). Its factor comes from reflections of the goals, so no condition is squared.
What a level does not see is weighted with 1e-10 of the least that it sees, and one step then takes the effect of that
weight on the level away. Matrices of directions have one in each row.
"""

from servonode.kernels.lib.names import *

KEPT_AS_IT_WAS = 0  # what `nearest` returns
ACTS = 1
GIVES_WAY = 2
CLIPPED = 3

MOST = 100  # iterations for each row and input, all together; 72 is the most that 30 inputs with 40 rows took

WANTED = 0  # of `held`, which has numbers for each row: slopes x >= wanted
FINE = 1  # the size of what that is computed from
STANDS = 2  # 1 where it is to be kept
AT = 3  # 1 + its place among what is active, else 0
LOW = 0  # of `box`, which has numbers for each input: limits of x
HIGH = 1
SIDE = 2  # 1 + the place of its limit among what is active, negative for the upper one, else 0
MULTIPLIER = 3  # by place; -1 where nothing is
BOUND = 4  # by place: where what is active stands


def dot(a: f64[n_tau], b: f64[n_tau], start: int, stop: int) -> float:
    """Of their entries from start to stop."""
    total = 0.0
    for i in range(start, stop):
        total += a[i] * b[i]
    return total


def add(x: f64[n_tau], factor: float, a: f64[n_tau], start: int, stop: int) -> None:
    """To x so much of a, from start to stop."""
    for i in range(start, stop):
        x[i] += factor * a[i]


def size_of(a: f64[n_tau], tau: f64[n_tau], b: float) -> float:
    """The size of what a tau - b is computed from."""
    size = fabs(b)
    for j in range(n_tau):
        size += fabs(a[j] * tau[j])
    return size


def turn(a: f64[n_tau], b: f64[n_tau], c: float, s: float) -> None:
    """Rotate two rows into each other, by an angle of that cosine and sine."""
    for i in range(n_tau):
        a[i], b[i] = c * a[i] + s * b[i], c * b[i] - s * a[i]


def largest(a: f64[n_tau]) -> float:
    """The largest size of an entry."""
    found = 0.0
    for i in range(n_tau):
        found = max(found, fabs(a[i]))
    return found


def reflect(P: f64[n_tau, n_tau], v: f64[n_tau], start: int, stop: int) -> float:
    """Reflect rows start to stop of P so that v, their coordinates, lies along the first: how long it is there.

    v is then the vector of the reflection.
    """
    whole = sqrt(dot(v, v, start, stop))
    whole = -whole if v[start] > 0.0 else whole
    v[start] -= whole
    along = empty(n_tau)
    for i in range(n_tau):
        along[i] = 0.0
    for j in range(start, stop):
        add(along, v[j] / (whole * v[start]), P[j], 0, n_tau)
    for j in range(start, stop):
        add(P[j], v[j], along, 0, n_tau)
    return whole


def moved_up(place: float, gone: int) -> float:
    """A place, with a sign, once another is gone."""
    return 0.0 if fabs(place) == gone else place if fabs(place) < gone else place - 1.0 if place > 0.0 else place + 1.0


def slopes_by_place(q: int, d: f64[n_tau], R: f64[n_tau, n_tau], r: f64[n_tau]) -> None:
    """Fill r with the share of each of q active slopes in one whose coordinates by J are d."""
    for i in range(q - 1, -1, -1):
        total = d[i]
        for j in range(i + 1, q):
            total -= R[j, i] * r[j]
        r[i] = total / R[i, i]


def restore(
    x: f64[n_tau], q: int, J: f64[n_tau, n_tau], box: f64[any_size, n_tau], R: f64[n_tau, n_tau],
    active: f64[n_tau, n_tau],
) -> None:  # fmt: skip
    """Take away from x what rounding has made of a long way: what is active stands at its bound."""
    for j in range(q):
        add(x, (box[BOUND, j] - dot(active[j], x, 0, n_tau)) / R[j, j], J[j], 0, n_tau)


def split(n: f64[n_tau], q: int, f: int, J: f64[n_tau, n_tau], d: f64[n_tau], z: f64[n_tau]) -> float:
    """Fill d with J n, and z with how x may move along n past q that are active: what n gains by it."""
    for i in range(n_tau):
        z[i] = 0.0
    for j in range(f):
        d[j] = dot(J[j], n, 0, n_tau)
        if j >= q:
            add(z, d[j], J[j], 0, n_tau)
    return dot(d, d, q, f)


def normal(n: f64[n_tau], which: int, sign: float, slopes: f64[n_rows, n_tau]) -> None:
    """Fill n with the slopes of a row, or beyond them of a limit of this sign."""
    for i in range(n_tau):
        n[i] = slopes[which, i] if which < n_rows else sign if i == which - n_rows else 0.0


def join(
    which: int, sign: float, q: int, f: int, n: f64[n_tau], d: f64[n_tau], J: f64[n_tau, n_tau],
    held: f64[any_size, n_rows], box: f64[any_size, n_tau], R: f64[n_tau, n_tau], active: f64[n_tau, n_tau],
) -> None:  # fmt: skip
    """A row or limit with slopes n, by J d, becomes active after q others; f: of J span what is free."""
    best = q  # the largest entry first, so that the reflection cancels nothing
    for j in range(q + 1, f):
        best = j if fabs(d[j]) > fabs(d[best]) else best
    d[q], d[best] = d[best], d[q]
    for i in range(n_tau):
        J[q, i], J[best, i] = J[best, i], J[q, i]
    whole = reflect(J, d, q, f)
    d[q] = whole
    for i in range(n_tau):
        R[q, i] = d[i]
        active[q, i] = n[i]
    if which < n_rows:
        held[AT, which] = q + 1
        box[BOUND, q] = held[WANTED, which]
    else:
        box[SIDE, which - n_rows] = sign * (q + 1)
        box[BOUND, q] = box[LOW, which - n_rows] if sign > 0.0 else -box[HIGH, which - n_rows]


def leave(
    k: int, q: int, J: f64[n_tau, n_tau], held: f64[any_size, n_rows], box: f64[any_size, n_tau],
    R: f64[n_tau, n_tau], active: f64[n_tau, n_tau],
) -> None:  # fmt: skip
    """What is active at place k is no more, so that q are left."""
    for i in range(n_rows):
        held[AT, i] = moved_up(held[AT, i], k + 1)
    for i in range(n_tau):
        box[SIDE, i] = moved_up(box[SIDE, i], k + 1)
    for j in range(k, q):
        box[MULTIPLIER, j] = box[MULTIPLIER, j + 1]
        box[BOUND, j] = box[BOUND, j + 1]
        for i in range(n_tau):
            R[j, i] = R[j + 1, i]
            active[j, i] = active[j + 1, i]
    box[MULTIPLIER, q] = -1.0
    for j in range(k, q):
        a = R[j, j]
        b = R[j, j + 1]
        whole = sqrt(a * a + b * b)
        c = a / whole
        s = b / whole
        for i in range(j, q):
            a = R[i, j]
            b = R[i, j + 1]
            R[i, j] = c * a + s * b
            R[i, j + 1] = c * b - s * a
        turn(J[j], J[j + 1], c, s)


def none_active(held: f64[any_size, n_rows], box: f64[any_size, n_tau]) -> None:
    for i in range(n_rows):
        held[AT, i] = 0.0
    for i in range(n_tau):
        box[SIDE, i] = 0.0
        box[MULTIPLIER, i] = -1.0


def settle(
    x: f64[n_tau], J: f64[n_tau, n_tau], f: int, slopes: f64[n_rows, n_tau], held: f64[any_size, n_rows],
    box: f64[any_size, n_tau], R: f64[n_tau, n_tau], active: f64[n_tau, n_tau], left: int,
) -> int:  # fmt: skip
    """Move x from the least of a quadratic to its least where rows that stand and limits are kept.

    The first f of J span the directions that are free; sums of J J^T are the inverse of the quadratic's second
    derivative there. Returns how many iterations are left of those that were; 0 at the bound, and less than 0, that
    many, where nothing keeps all.
    """
    n = empty(n_tau)
    d = empty(n_tau)
    z = empty(n_tau)
    r = empty(n_tau)
    q = 0  # how many are active
    none_active(held, box)
    while left > 0:
        restore(x, q, J, box, R, active)
        size = largest(x)
        worst = 0.0
        need = 0.0
        which = -1  # a row, or beyond them a limit
        sign = 1.0
        for i in range(n_rows):
            if held[AT, i] == 0.0 and held[STANDS, i] != 0.0:
                missing = held[WANTED, i] - dot(slopes[i], x, 0, n_tau)
                beyond = missing - 1e-12 * (held[FINE, i] + size)
                if beyond > worst:
                    worst, need, which = beyond, missing, i
        for i in range(n_tau):
            missing = max(box[LOW, i] - x[i], x[i] - box[HIGH, i])
            if box[SIDE, i] == 0.0 and missing - 1e-12 * size > worst:
                worst, need, which = missing - 1e-12 * size, missing, n_rows + i
                sign = 1.0 if x[i] < box[LOW, i] else -1.0
        if which < 0:
            return left
        normal(n, which, sign, slopes)
        own = 0.0  # its multiplier
        adding = True
        while adding:
            left -= 1
            if left <= 0:
                return 0
            gain = split(n, q, f, J, d, z)
            free = gain > 1e-10 * sqrt(dot(z, z, 0, n_tau))  # the cosine between the row and how x may move
            slopes_by_place(q, d, R, r)
            step = need / gain if free else 0.0
            blocks = -1
            for j in range(q):
                if r[j] > 1e-12 and ((blocks < 0 and not free) or box[MULTIPLIER, j] < step * r[j]):
                    step = box[MULTIPLIER, j] / r[j]
                    blocks = j
            if not free and blocks < 0:
                return -left
            for j in range(q):
                box[MULTIPLIER, j] = max(box[MULTIPLIER, j] - step * r[j], 0.0)
            own += step
            if free:
                need -= step * gain
                add(x, step, z, 0, n_tau)
            if blocks >= 0:  # that one leaves
                q -= 1
                leave(blocks, q, J, held, box, R, active)
            else:
                join(which, sign, q, f, n, d, J, held, box, R, active)
                box[MULTIPLIER, q] = own
                q += 1
                adding = False
    return 0


def factor(
    m: int, M: f64[any_size, n_tau], c: f64[any_size], N: f64[n_tau, n_tau], f: int, J: f64[n_tau, n_tau],
    x: f64[n_tau],
) -> int:  # fmt: skip
    """Fill J for `settle` with the least |M (x' - x) - c| over x' - x in the span of the first f of N; x to it.

    Returns the rank of M there. N is turned so that so many come first which M sees. M and c are used up: M becomes
    a lower triangle, by the directions that it sees.
    """
    v = empty(n_tau)
    scale = 0.0
    for i in range(m):
        scale = max(scale, largest(M[i]))
    seen = scale > 0.0
    for i in range(m if seen else 0):
        c[i] = c[i] / scale
        for j in range(n_tau):
            v[j] = M[i, j] / scale
        for j in range(f):
            M[i, j] = v[j] if f == n_tau else dot(v, N[j], 0, n_tau)
    r = 0
    while seen and r < min(m, f):
        most = 0.0
        best = r
        for i in range(r, m):
            square = dot(M[i], M[i], r, f)
            if square > most:
                most = square
                best = i
        seen = most > 1e-20
        if seen:
            c[r], c[best] = c[best], c[r]
            for j in range(f):
                M[r, j], M[best, j] = M[best, j], M[r, j]
                v[j] = M[r, j]
            whole = reflect(N, v, r, f)
            for i in range(r + 1, m):
                add(M[i], dot(M[i], v, r, f) / (whole * v[r]), v, r, f)
            M[r, r] = whole
            r += 1
    for i in range(r, m):  # more rows than rank: turn them into the triangle
        for j in range(r - 1, -1, -1):
            if M[i, j] != 0.0:
                whole = sqrt(M[j, j] * M[j, j] + M[i, j] * M[i, j])
                a = M[j, j] / whole
                b = M[i, j] / whole
                for k in range(j + 1):
                    M[j, k], M[i, k] = a * M[j, k] + b * M[i, k], a * M[i, k] - b * M[j, k]
                c[j], c[i] = a * c[j] + b * c[i], a * c[i] - b * c[j]
    for j in range(r - 1, -1, -1):
        for i in range(n_tau):
            J[j, i] = N[j, i] / M[j, j]
        for k in range(j + 1, r):
            add(J[j], -M[k, j] / M[j, j], J[k], 0, n_tau)
        add(x, c[j], J[j], 0, n_tau)
    weight = 1e5 / fabs(M[r - 1, r - 1]) if r > 0 else 1.0
    for j in range(r, f):
        for i in range(n_tau):
            J[j, i] = N[j, i] * weight
    return r


def sharpen(
    x: f64[n_tau], least: f64[n_tau], L: f64[any_size, n_tau], r: int, N: f64[n_tau, n_tau], J: f64[n_tau, n_tau],
    f: int, slopes: f64[n_rows, n_tau], held: f64[any_size, n_rows], box: f64[any_size, n_tau],
) -> None:  # fmt: skip
    """One step from what `settle` found to the least for what L sees alone; rows and limits that act go on acting.

    It is long where L hardly sees it, and ends at the first of those that did not act.
    """
    e = empty(n_tau)
    slope = empty(n_tau)
    before = empty(n_tau)
    for i in range(n_tau):
        before[i] = x[i]
        least[i] = x[i] - least[i]
        slope[i] = 0.0
    for j in range(r):
        e[j] = dot(N[j], least, 0, n_tau)
    for j in range(r - 1, -1, -1):
        e[j] = dot(L[j], e, 0, j + 1)
    for j in range(r):
        total = 0.0
        for i in range(j, r):
            total += L[i, j] * e[i]
        add(slope, total, N[j], 0, n_tau)
    for j in range(f):
        if box[MULTIPLIER, j] < 0.0:
            add(x, -dot(J[j], slope, 0, n_tau), J[j], 0, n_tau)
    size = largest(x)
    share = 1.0
    for i in range(n_rows):
        missing = held[WANTED, i] - dot(slopes[i], x, 0, n_tau)
        if held[AT, i] == 0.0 and held[STANDS, i] != 0.0 and missing > 1e-12 * (held[FINE, i] + size):
            room = max(dot(slopes[i], before, 0, n_tau) - held[WANTED, i], 0.0)
            share = min(share, room / (room + missing))
    for i in range(n_tau):
        missing = max(box[LOW, i] - x[i], x[i] - box[HIGH, i])
        if box[SIDE, i] == 0.0 and missing > 1e-12 * size:
            room = max(before[i] - box[LOW, i] if x[i] < box[LOW, i] else box[HIGH, i] - before[i], 0.0)
            share = min(share, room / (room + missing))
    for i in range(n_tau if share < 1.0 else 0):
        x[i] = before[i] + share * (x[i] - before[i])


def begin(x: f64[n_tau], N: f64[n_tau, n_tau]) -> None:
    """All is free, and x as the law has it."""
    for i in range(n_tau):
        x[i] = 0.0
        for j in range(n_tau):
            N[i, j] = 1.0 if i == j else 0.0


def by_levels(
    x: f64[n_tau], goals: f64[n_goals, n_tau], levels: f64[n_goals], unit: f64[n_tau], slopes: f64[n_rows, n_tau],
    held: f64[any_size, n_rows], box: f64[any_size, n_tau], acts: f64[n_rows], left: int,
) -> int:  # fmt: skip
    """Set x, level after level; returns as `settle`, for what the first one finds. acts: rows with multipliers."""
    N = empty((n_tau, n_tau))
    J = empty((n_tau, n_tau))
    M = empty((n_goals, n_tau))
    c = empty(n_goals)
    y = empty(n_tau)
    least = empty(n_tau)
    R = empty((n_tau, n_tau))
    active = empty((n_tau, n_tau))
    begin(y, N)
    f = 1 * n_tau
    level = -1.7e308
    first = True
    while f > 0:
        before = level
        for i in range(n_goals):
            if levels[i] > before:
                level = levels[i] if level == before else min(level, levels[i])
        m = 0
        for i in range(n_goals):
            if levels[i] == level and level > before:
                for j in range(n_tau):
                    M[m, j] = goals[i, j] * unit[j]
                c[m] = -dot(M[m], y, 0, n_tau)
                m += 1
        r = factor(m, M, c, N, f, J, y)
        for j in range(0 if m else f):  # the last: least change
            add(y, -dot(N[j], y, 0, n_tau), N[j], 0, n_tau)
        for i in range(n_tau):
            least[i] = y[i]
        if r or not m:
            left = settle(y, J, f, slopes, held, box, R, active, left)
            if left <= 0:  # after the first by rounding alone: the levels before keep all
                return left if first or left == 0 else -left
            first = False
            if m and r < f:
                sharpen(y, least, M, r, N, J, f, slopes, held, box)
            for i in range(n_tau):
                x[i] = y[i]
            for i in range(n_rows):
                for j in range(n_tau):
                    if held[AT, i] == j + 1 and box[MULTIPLIER, j] > 0.0:
                        acts[i] = 1.0
        if not m:
            return left
        f -= r
        for j in range(f):
            for i in range(n_tau):
                N[j, i] = N[j + r, i]
    return left


def ascend(
    x: f64[n_tau], g: int, q: int, J: f64[n_tau, n_tau], slopes: f64[n_rows, n_tau], held: f64[any_size, n_rows],
    box: f64[any_size, n_tau], R: f64[n_tau, n_tau], active: f64[n_tau, n_tau], left: int,
) -> int:  # fmt: skip
    """Move x, which keeps rows that stand and limits, until it keeps row g too, or as nearly as these allow.

    q are active. Returns how many iterations are left. The first of several that might leave or block does so, which
    ends wherever they meet (Bland 1977).
    """
    n = empty(n_tau)
    d = empty(n_tau)
    z = empty(n_tau)
    r = empty(n_tau)
    moved = True
    while left > 0:
        left -= 1
        need = held[WANTED, g] - dot(slopes[g], x, 0, n_tau)
        if need <= 1e-12 * (held[FINE, g] + largest(x)):
            return left
        gain = split(slopes[g], q, n_tau, J, d, z)
        blocks = -1
        if gain > 1e-20:
            step = need / gain
            sign = 1.0
            least = 1e-10 * sqrt(gain)
            for i in range(n_rows):
                if held[STANDS, i] != 0.0 and held[AT, i] == 0.0:
                    along = -dot(slopes[i], z, 0, n_tau)
                    if along > least:
                        room = dot(slopes[i], x, 0, n_tau) - held[WANTED, i]
                        if room < step * along:
                            step, blocks = max(room, 0.0) / along, i
            for i in range(n_tau):
                if box[SIDE, i] == 0.0 and fabs(z[i]) > least:
                    room = box[HIGH, i] - x[i] if z[i] > 0.0 else x[i] - box[LOW, i]
                    if room < step * fabs(z[i]):
                        step, blocks = max(room, 0.0) / fabs(z[i]), n_rows + i
                        sign = -1.0 if z[i] > 0.0 else 1.0
            add(x, step, z, 0, n_tau)
            restore(x, q, J, box, R, active)
            moved = step > 0.0
            if blocks >= 0:
                normal(n, blocks, sign, slopes)
                gain = split(n, q, n_tau, J, d, z)
                join(blocks, sign, q, n_tau, n, d, J, held, box, R, active)
                box[MULTIPLIER, q] = 0.0
                q += 1
        else:
            slopes_by_place(q, d, R, r)
            for i in range(n_rows + n_tau):  # that with the largest share, but the first where no step was made
                place = held[AT, i] if i < n_rows else fabs(box[SIDE, i - n_rows])
                for j in range(q if place > 0.0 else 0):
                    if place == j + 1 and r[j] > 1e-12 and (blocks < 0 or (moved and r[j] > r[blocks])):
                        blocks = j
            if blocks < 0:
                return left
            q -= 1
            leave(blocks, q, J, held, box, R, active)
    return 0


def give_way(
    x: f64[n_tau], slopes: f64[n_rows, n_tau], held: f64[any_size, n_rows], box: f64[any_size, n_tau],
    ranks: f64[n_rows], left: int,
) -> int:  # fmt: skip
    """Lower what is wanted of rows until all can be kept; returns iterations left.

    In order of rank, then of index, each row is kept as well as those before it allow.
    """
    J = empty((n_tau, n_tau))
    R = empty((n_tau, n_tau))
    active = empty((n_tau, n_tau))
    later = empty(n_rows)
    begin(x, J)
    none_active(held, box)
    for i in range(n_rows):
        later[i] = held[STANDS, i]
        held[STANDS, i] = 0.0
    for i in range(n_tau):
        x[i] = min(max(0.0, box[LOW, i]), box[HIGH, i])
    for _ in range(n_rows):
        g = -1
        for i in range(n_rows):
            if later[i] != 0.0 and (g < 0 or ranks[i] < ranks[g]):
                g = i
        if g >= 0:
            later[g] = 0.0
            q = 0
            for j in range(n_tau):
                q += 1 if box[MULTIPLIER, j] >= 0.0 else 0
            left = ascend(x, g, q, J, slopes, held, box, R, active, left)
            size = held[FINE, g] + largest(x)
            reached = dot(slopes[g], x, 0, n_tau)
            if held[WANTED, g] - reached > 1e-12 * size:
                held[WANTED, g] = reached - 1e-12 * size
            held[STANDS, g] = 1.0
    return left


def keeps_all(
    tau: f64[n_tau], lower: f64[n_tau], upper: f64[n_tau], A: f64[n_rows, n_tau], b: f64[n_rows], acts: f64[n_rows],
) -> int:  # fmt: skip
    """KEPT_AS_IT_WAS where tau is finite, and rows A tau >= b and limits are kept; else another number. acts: to 0."""
    status = KEPT_AS_IT_WAS
    for i in range(n_tau):
        if not (isfinite(tau[i]) and lower[i] <= tau[i] and tau[i] <= upper[i]):
            status = ACTS
    for i in range(n_rows):
        acts[i] = 0.0
        missing = b[i]
        size = fabs(b[i])
        for j in range(n_tau):
            along = A[i, j] * tau[j]
            missing -= along
            size += fabs(along)
        if not (isfinite(size) and missing <= 1e-12 * size):
            status = ACTS
    return status


def nearest(
    tau: f64[n_tau], lower: f64[n_tau], upper: f64[n_tau], goals: f64[n_goals, n_tau], levels: f64[n_goals],
    shares: f64[n_tau], A: f64[n_rows, n_tau], b: f64[n_rows], ranks: f64[n_rows], acts: f64[n_rows],
) -> int:  # fmt: skip
    """Change tau as little as rows A tau >= b and limits allow, and say in `acts` what each row does; how it went.

    Rows that cannot all be kept give way by `ranks`, the largest first, of equal ones the last, each by as little as
    those before it allow; limits never do. 1 in `acts`: it acts; -1: it gives way. Then least |goals (tau - tau0)|, one
    of `levels` after the other, and least sum of shares (tau - tau0)^2 in what they leave free.
    CLIPPED, which changes tau by its limits alone (what is not finite from 0): a number is not finite, a share is not
    above 0, limits exclude each other, or no answer was found within MOST iterations for each row and input.
    """
    held = empty((4, n_rows))
    box = empty((5, n_tau))
    slopes = empty((n_rows, n_tau))
    unit = empty(n_tau)
    x = empty(n_tau)
    if keeps_all(tau, lower, upper, A, b, acts) == KEPT_AS_IT_WAS:
        return KEPT_AS_IT_WAS
    finite = True
    for i in range(n_tau):
        finite = finite and isfinite(tau[i]) and shares[i] > 0.0 and isfinite(shares[i]) and lower[i] <= upper[i]
    for i in range(n_rows):
        size = size_of(A[i], tau, b[i])
        held[FINE, i] = size
        held[WANTED, i] = b[i] - dot(A[i], tau, 0, n_tau)
        finite = finite and isfinite(size) and isfinite(ranks[i])
    for i in range(n_goals):
        finite = finite and isfinite(levels[i])
        for j in range(n_tau):
            finite = finite and isfinite(goals[i, j])
    left = 0
    if finite:
        for i in range(n_tau):
            unit[i] = 1.0 / sqrt(shares[i])
            box[LOW, i] = (lower[i] - tau[i]) / unit[i]
            box[HIGH, i] = (upper[i] - tau[i]) / unit[i]
        most = 0.0
        for i in range(n_rows):
            for j in range(n_tau):
                slopes[i, j] = A[i, j] * unit[j]
            most = max(most, largest(slopes[i]))
        for i in range(n_rows):
            scale = largest(slopes[i])
            held[STANDS, i] = 1.0 if scale > 1e-12 * most else 0.0
            if held[STANDS, i] != 0.0:
                for j in range(n_tau):
                    slopes[i, j] = slopes[i, j] / scale
                length = sqrt(dot(slopes[i], slopes[i], 0, n_tau))
                for j in range(n_tau):
                    slopes[i, j] = slopes[i, j] / length
                held[FINE, i] = held[FINE, i] / (scale * length)
                held[WANTED, i] = held[WANTED, i] / (scale * length)
        left = by_levels(x, goals, levels, unit, slopes, held, box, acts, MOST * (n_rows + n_tau))
        if left < 0:
            left = give_way(x, slopes, held, box, ranks, -left)
            if left > 0:
                left = by_levels(x, goals, levels, unit, slopes, held, box, acts, left)
                left = max(left, -left)  # x is there even where rounding excludes rows that only just can be kept
    status = ACTS if left > 0 else CLIPPED
    for i in range(n_tau):
        if left > 0:
            x[i] = tau[i] + unit[i] * x[i]
            status = status if isfinite(x[i]) else CLIPPED
    for i in range(n_tau):
        value = x[i] if status == ACTS else tau[i] if isfinite(tau[i]) else 0.0
        tau[i] = min(max(value, lower[i]), upper[i])
    for i in range(n_rows):
        size = size_of(A[i], tau, b[i])
        kept_by = dot(A[i], tau, 0, n_tau) - b[i]
        if status == CLIPPED or kept_by > 1e-9 * size:
            acts[i] = 0.0
        elif kept_by < -1e-9 * size:
            acts[i] = -1.0
            status = GIVES_WAY
    return status


def noticed(
    how: int, tau: f64[n_tau], A: f64[n_rows, n_tau], b: f64[n_rows], slack: f64[n_rows], acts: f64[n_rows],
) -> int:  # fmt: skip
    """How `nearest` went, and what each row does, where a row that lacks less than its slack does not give way."""
    if how == GIVES_WAY:
        how = ACTS
        for i in range(n_rows):
            if acts[i] < 0.0 and b[i] - dot(A[i], tau, 0, n_tau) < slack[i]:
                acts[i] = 1.0
            how = GIVES_WAY if acts[i] < 0.0 else how
    return how
