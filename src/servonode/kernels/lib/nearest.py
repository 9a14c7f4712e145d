"""The inputs nearest to those of a law that keep rows A tau >= b and limits: strictly by levels, least squares in each.

Each level is a strictly convex problem in what the levels before leave free, solved by the dual active set method of
Goldfarb and Idnani (1983). Its factor comes from Householder reflections of the goals, so no condition is squared.
"""

from servonode.kernels.lib.names import *

KEPT_AS_IT_WAS = 0  # what `nearest` returns
ACTS = 1
GIVES_WAY = 2
CLIPPED = 3

MOST = 100  # iterations for each row and each input, all together


def settle(
    x: f64[n_tau],
    J: f64[n_tau, n_tau],
    f: int,
    slopes: f64[n_rows, n_tau],
    wanted: f64[n_rows],
    fine: f64[n_rows],
    stands: f64[n_rows],
    low: f64[n_tau],
    high: f64[n_tau],
    at: f64[n_rows],
    side: f64[n_tau],
    u: f64[n_tau],
    left: int,
) -> int:
    """Move x from the least of a quadratic to its least where slopes x >= wanted, for rows that stand, and in limits.

    The first f columns of J span the directions that are free; J J^T is the inverse of the quadratic's second
    derivative there. at: 1 + the place of a row among the active ones, else 0; side the same of limits, negative for
    upper ones; u: multipliers, by place. Returns how many iterations are left of those that were; 0 at the bound, and
    less than 0, that many, where nothing keeps all.
    """
    R = empty((n_tau, n_tau))
    n = empty(n_tau)
    d = empty(n_tau)
    z = empty(n_tau)
    r = empty(n_tau)
    for i in range(n_rows):
        at[i] = 0.0
    for i in range(n_tau):
        side[i] = 0.0
    q = 0  # how many are active
    while left > 0:
        size = 0.0
        for i in range(n_tau):
            size = max(size, fabs(x[i]))
        worst = 0.0
        which = -1  # a row, then lower, then upper limits
        need = 0.0
        for i in range(n_rows):
            if at[i] == 0.0 and stands[i] != 0.0:
                missing = wanted[i]
                for j in range(n_tau):
                    missing -= slopes[i, j] * x[j]
                if missing - 1e-12 * (fine[i] + size) > worst:
                    worst = missing - 1e-12 * (fine[i] + size)
                    which = i
                    need = missing
        for i in range(n_tau):
            if side[i] == 0.0:
                missing = max(low[i] - x[i], x[i] - high[i])
                if missing - 1e-12 * size > worst:
                    worst = missing - 1e-12 * size
                    which = n_rows + i if x[i] < low[i] else n_rows + n_tau + i
                    need = missing
        if which < 0:
            return left
        for i in range(n_tau):
            n[i] = 0.0
        if which < n_rows:
            for i in range(n_tau):
                n[i] = slopes[which, i]
        elif which < n_rows + n_tau:
            n[which - n_rows] = 1.0
        else:
            n[which - n_rows - n_tau] = -1.0
        own = 0.0  # its multiplier
        adding = True
        while adding:
            left -= 1
            if left <= 0:
                return 0
            for j in range(f):
                total = 0.0
                for i in range(n_tau):
                    total += J[i, j] * n[i]
                d[j] = total
            gain = 0.0
            length = 0.0
            for j in range(q, f):
                gain += d[j] * d[j]
            for i in range(n_tau):
                total = 0.0
                for j in range(q, f):
                    total += J[i, j] * d[j]
                z[i] = total
                length += total * total
            free = gain > 1e-10 * sqrt(length)  # the cosine between the row and how x may move
            for i in range(q - 1, -1, -1):
                total = d[i]
                for j in range(i + 1, q):
                    total -= R[i, j] * r[j]
                r[i] = total / R[i, i]
            step = need / gain if free else 0.0
            blocks = -1
            for j in range(q):
                if r[j] > 1e-12 and ((blocks < 0 and not free) or u[j] < step * r[j]):
                    step = u[j] / r[j]
                    blocks = j
            if not free and blocks < 0:
                return -left
            for j in range(q):
                u[j] = max(u[j] - step * r[j], 0.0)
            own += step
            if free:
                need -= step * gain
                for i in range(n_tau):
                    x[i] += step * z[i]
            if blocks >= 0:  # it leaves
                for i in range(n_rows):
                    at[i] = 0.0 if at[i] == blocks + 1 else at[i] - 1.0 if at[i] > blocks + 1 else at[i]
                for i in range(n_tau):
                    place = fabs(side[i]) - blocks - 1
                    if place == 0.0:
                        side[i] = 0.0
                    elif place > 0.0:
                        side[i] -= 1.0 if side[i] > 0.0 else -1.0
                q -= 1
                for j in range(blocks, q):
                    u[j] = u[j + 1]
                    for i in range(j + 2):
                        R[i, j] = R[i, j + 1]
                for j in range(blocks, q):
                    whole = sqrt(R[j, j] * R[j, j] + R[j + 1, j] * R[j + 1, j])
                    a = R[j, j] / whole
                    b = R[j + 1, j] / whole
                    R[j, j] = whole
                    for k in range(j + 1, q):
                        R[j, k], R[j + 1, k] = a * R[j, k] + b * R[j + 1, k], a * R[j + 1, k] - b * R[j, k]
                    for i in range(n_tau):
                        J[i, j], J[i, j + 1] = a * J[i, j] + b * J[i, j + 1], a * J[i, j + 1] - b * J[i, j]
            else:  # it becomes active; the largest entry first, so that a reflection cancels nothing
                adding = False
                best = q
                for j in range(q + 1, f):
                    best = j if fabs(d[j]) > fabs(d[best]) else best
                d[q], d[best] = d[best], d[q]
                for i in range(n_tau):
                    J[i, q], J[i, best] = J[i, best], J[i, q]
                whole = -sqrt(gain) if d[q] > 0.0 else sqrt(gain)
                first = d[q] - whole
                for i in range(n_tau):
                    along = (z[i] - whole * J[i, q]) / (whole * first)
                    J[i, q] += along * first
                    for j in range(q + 1, f):
                        J[i, j] += along * d[j]
                d[q] = whole
                for i in range(q + 1):
                    R[i, q] = d[i]
                u[q] = own
                q += 1
                if which < n_rows:
                    at[which] = q
                elif which < n_rows + n_tau:
                    side[which - n_rows] = q
                else:
                    side[which - n_rows - n_tau] = -q
    return 0


def factor(
    m: int,
    M: f64[any_size, n_tau],
    c: f64[any_size],
    N: f64[n_tau, n_tau],
    f: int,
    J: f64[n_tau, n_tau],
    x: f64[n_tau],
) -> int:
    """Fill J for `settle` with the least |M (x' - x) - c| over x' - x in the span of N's first f columns; x to it.

    Returns the rank of M there. N is turned so that so many columns come first which M sees; what it does not see is
    given the weight 1e-10 of the least that it does. M and c are used up: M becomes the triangle.
    """
    scale = 0.0
    for i in range(m):
        for j in range(n_tau):
            scale = max(scale, fabs(M[i, j]))
    v = empty(n_tau)
    r = 0
    seen = scale > 0.0
    if seen:
        for i in range(m):
            c[i] = c[i] / scale
            for j in range(n_tau):
                v[j] = M[i, j] / scale
            for j in range(f):
                total = v[j]
                if f < n_tau:
                    total = 0.0
                    for k in range(n_tau):
                        total += v[k] * N[k, j]
                M[i, j] = total
    while seen and r < min(m, f):
        most = 0.0
        best = r
        for i in range(r, m):
            square = 0.0
            for j in range(r, f):
                square += M[i, j] * M[i, j]
            if square > most:
                most = square
                best = i
        seen = most > 1e-20
        if seen:
            c[r], c[best] = c[best], c[r]
            for j in range(f):
                M[r, j], M[best, j] = M[best, j], M[r, j]
                v[j] = M[r, j]
            whole = -sqrt(most) if v[r] > 0.0 else sqrt(most)
            v[r] -= whole
            share = 1.0 / (whole * v[r])
            M[r, r] = whole
            for i in range(r + 1, m):
                total = 0.0
                for j in range(r, f):
                    total += M[i, j] * v[j]
                total *= share
                for j in range(r, f):
                    M[i, j] += total * v[j]
            for i in range(n_tau):
                total = 0.0
                for j in range(r, f):
                    total += N[i, j] * v[j]
                total *= share
                for j in range(r, f):
                    N[i, j] += total * v[j]
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
    for j in range(r):
        v[j] = 1.0 / M[j, j]
    free = 1e5 * fabs(v[r - 1]) if r > 0 else 1.0
    for i in range(n_tau):
        for j in range(r, f):
            J[i, j] = N[i, j] * free
        for j in range(r - 1, -1, -1):
            total = N[i, j]
            for k in range(j + 1, r):
                total -= J[i, k] * M[k, j]
            J[i, j] = total * v[j]
        for j in range(r):
            x[i] += J[i, j] * c[j]
    return r


def sharpen(
    x: f64[n_tau],
    least: f64[n_tau],
    L: f64[any_size, n_tau],
    r: int,
    N: f64[n_tau, n_tau],
    J: f64[n_tau, n_tau],
    f: int,
    at: f64[n_rows],
    side: f64[n_tau],
) -> None:
    """One step from what `settle` found to the least for what L sees alone; rows and limits that act go on acting."""
    q = 0
    for i in range(n_rows):
        q += 1 if at[i] > 0.0 else 0
    for i in range(n_tau):
        q += 1 if side[i] != 0.0 else 0
    e = empty(n_tau)
    slope = empty(n_tau)
    for j in range(r):
        e[j] = 0.0
        for i in range(n_tau):
            e[j] += N[i, j] * (x[i] - least[i])
    for i in range(r - 1, -1, -1):  # L e, in place
        total = 0.0
        for j in range(i + 1):
            total += L[i, j] * e[j]
        e[i] = total
    for j in range(r):
        total = 0.0
        for i in range(j, r):
            total += L[i, j] * e[i]
        e[j] = total
    for i in range(n_tau):
        slope[i] = 0.0
        for j in range(r):
            slope[i] += N[i, j] * e[j]
    for j in range(q, f):
        e[j] = 0.0
        for i in range(n_tau):
            e[j] += J[i, j] * slope[i]
    for i in range(n_tau):
        for j in range(q, f):
            x[i] -= J[i, j] * e[j]


def begin(x: f64[n_tau], N: f64[n_tau, n_tau]) -> None:
    """All is free, and x as the law has it."""
    for i in range(n_tau):
        x[i] = 0.0
        for j in range(n_tau):
            N[i, j] = 1.0 if i == j else 0.0


def by_levels(
    x: f64[n_tau],
    goals: f64[n_goals, n_tau],
    levels: f64[n_goals],
    unit: f64[n_tau],
    slopes: f64[n_rows, n_tau],
    wanted: f64[n_rows],
    fine: f64[n_rows],
    stands: f64[n_rows],
    low: f64[n_tau],
    high: f64[n_tau],
    acts: f64[n_rows],
    left: int,
) -> int:
    """Set x, level after level; returns as `settle`, for what the first one finds. acts: rows with multipliers."""
    N = empty((n_tau, n_tau))
    J = empty((n_tau, n_tau))
    M = empty((n_goals, n_tau))
    c = empty(n_goals)
    y = empty(n_tau)
    least = empty(n_tau)
    at = empty(n_rows)
    side = empty(n_tau)
    u = empty(n_tau)
    begin(y, N)
    f = 1 * n_tau
    level = -1e300
    first = True
    while f > 0:
        m = 0
        following = 1e300
        for i in range(n_goals):
            if levels[i] > level and levels[i] < following:
                following = levels[i]
        level = following
        for i in range(n_goals):
            if levels[i] == level:
                total = 0.0
                for j in range(n_tau):
                    M[m, j] = goals[i, j] * unit[j]
                    total -= M[m, j] * y[j]
                c[m] = total
                m += 1
        r = factor(m, M, c, N, f, J, y)
        if m == 0:  # the last: least change
            for j in range(f):
                total = 0.0
                for i in range(n_tau):
                    total += N[i, j] * y[i]
                u[j] = total
            for i in range(n_tau):
                for j in range(f):
                    y[i] -= N[i, j] * u[j]
        if m == 0 or r > 0:
            for i in range(n_tau):
                least[i] = y[i]
            left = settle(y, J, f, slopes, wanted, fine, stands, low, high, at, side, u, left)
            if left <= 0 and first:
                return left
            if left <= 0:  # rounding alone: the levels before keep all
                return max(-left, 1)
            first = False
            if r > 0 and r < f:
                sharpen(y, least, M, r, N, J, f, at, side)
            for i in range(n_tau):
                x[i] = y[i]
            for i in range(n_rows):
                for j in range(n_tau):
                    if at[i] == j + 1 and u[j] > 0.0:
                        acts[i] = 1.0
        if m == 0:
            return left
        for i in range(n_tau):
            for j in range(r, f):
                N[i, j - r] = N[i, j]
        f -= r
    return left


def give_way(
    x: f64[n_tau],
    slopes: f64[n_rows, n_tau],
    wanted: f64[n_rows],
    fine: f64[n_rows],
    stands: f64[n_rows],
    ranks: f64[n_rows],
    low: f64[n_tau],
    high: f64[n_tau],
    left: int,
) -> int:
    """Lower what is wanted of rows until all can be kept, and set x so that they are; returns iterations left.

    In order of rank, then of index, each row is kept as well as those before it allow.
    """
    N = empty((n_tau, n_tau))
    J = empty((n_tau, n_tau))
    M = empty((1, n_tau))
    c = empty(1)
    y = empty(n_tau)
    at = empty(n_rows)
    side = empty(n_tau)
    u = empty(n_tau)
    later = empty(n_rows)
    for i in range(n_rows):
        later[i] = stands[i]
        stands[i] = 0.0
    for i in range(n_tau):
        x[i] = min(max(0.0, low[i]), high[i])
    for _ in range(n_rows):
        g = -1
        for i in range(n_rows):
            if later[i] != 0.0 and (g < 0 or ranks[i] < ranks[g]):
                g = i
        if g >= 0:
            later[g] = 0.0
            stands[g] = 1.0
            missing = wanted[g]
            size = fine[g]
            for j in range(n_tau):
                missing -= slopes[g, j] * x[j]
                size = max(size, fabs(x[j]))
            if missing > 1e-12 * size:
                begin(y, J)
                left = settle(y, J, n_tau, slopes, wanted, fine, stands, low, high, at, side, u, left)
                if left < 0:  # the nearest to far more than what is wanted
                    stands[g] = 0.0
                    begin(y, N)
                    for j in range(n_tau):
                        M[0, j] = slopes[g, j]
                    c[0] = wanted[g] + 10.0 * (missing + size)
                    factor(1, M, c, N, n_tau, J, y)
                    left = settle(y, J, n_tau, slopes, wanted, fine, stands, low, high, at, side, u, -left)
                    stands[g] = 1.0
                    reached = 0.0
                    for j in range(n_tau):
                        reached += slopes[g, j] * y[j]
                        size = max(size, fabs(y[j]))
                    wanted[g] = min(wanted[g], reached - 1e-12 * size)
                if left <= 0:
                    return 0
                for j in range(n_tau):
                    x[j] = y[j]
    return left


def nearest(
    tau: f64[n_tau],
    lower: f64[n_tau],
    upper: f64[n_tau],
    goals: f64[n_goals, n_tau],
    levels: f64[n_goals],
    shares: f64[n_tau],
    A: f64[n_rows, n_tau],
    b: f64[n_rows],
    ranks: f64[n_rows],
    acts: f64[n_rows],
) -> int:
    """Change tau as little as rows A tau >= b and limits allow, and say in `acts` what each row does; how it went.

    Rows that cannot all be kept give way by `ranks`, the largest first, of equal ones the last, each by as little as
    those before it allow; limits never do. 1 in `acts`: it acts; -1: it gives way. Then least |goals (tau - tau0)|, one
    of `levels` after the other, and least sum of shares (tau - tau0)^2 in what they leave free.
    CLIPPED, which changes tau by its limits alone (what is not finite from 0): a number is not finite, a share is not
    above 0, limits exclude each other, or no answer was found within MOST iterations for each row and input.
    """
    finite = True
    kept = True
    for i in range(n_tau):
        finite = finite and isfinite(tau[i]) and shares[i] > 0.0 and isfinite(shares[i]) and lower[i] <= upper[i]
        kept = kept and lower[i] <= tau[i] and tau[i] <= upper[i]
    for i in range(n_rows):
        acts[i] = 0.0
        total = -b[i]
        size = fabs(b[i])
        for j in range(n_tau):
            total += A[i, j] * tau[j]
            size += fabs(A[i, j] * tau[j])
        finite = finite and isfinite(total)
        kept = kept and total >= -1e-12 * size
    if finite and kept:
        return KEPT_AS_IT_WAS
    for i in range(n_goals):
        finite = finite and isfinite(levels[i])
        for j in range(n_tau):
            finite = finite and isfinite(goals[i, j])
    status = CLIPPED
    x = empty(n_tau)
    unit = empty(n_tau)
    if finite:
        low = empty(n_tau)
        high = empty(n_tau)
        slopes = empty((n_rows, n_tau))
        wanted = empty(n_rows)
        fine = empty(n_rows)
        stands = empty(n_rows)
        for i in range(n_tau):
            unit[i] = 1.0 / sqrt(shares[i])
            low[i] = (lower[i] - tau[i]) / unit[i]
            high[i] = (upper[i] - tau[i]) / unit[i]
        for i in range(n_rows):
            largest = 0.0
            for j in range(n_tau):
                slopes[i, j] = A[i, j] * unit[j]
                largest = max(largest, fabs(slopes[i, j]))
            stands[i] = 1.0 if largest > 0.0 else 0.0
            square = 0.0
            for j in range(n_tau):
                slopes[i, j] = slopes[i, j] / largest if largest > 0.0 else 0.0
                square += slopes[i, j] * slopes[i, j]
            largest = largest * sqrt(square) if largest > 0.0 else 1.0
            total = b[i]
            size = fabs(b[i])
            for j in range(n_tau):
                slopes[i, j] = slopes[i, j] / sqrt(square) if square > 0.0 else 0.0
                total -= A[i, j] * tau[j]
                size += fabs(A[i, j] * tau[j])
            wanted[i] = total / largest
            fine[i] = size / largest
        left = by_levels(x, goals, levels, unit, slopes, wanted, fine, stands, low, high, acts, MOST * (n_rows + n_tau))
        if left < 0:
            left = give_way(x, slopes, wanted, fine, stands, ranks, low, high, -left)
            if left > 0:
                left = by_levels(x, goals, levels, unit, slopes, wanted, fine, stands, low, high, acts, left)
                left = max(left, -left)  # x is there even where rounding excludes rows that only just can be kept
        status = ACTS if left > 0 else CLIPPED
        for i in range(n_tau):
            x[i] = tau[i] + unit[i] * x[i] if left > 0 else 0.0
            status = status if isfinite(x[i]) else CLIPPED
    for i in range(n_tau):
        if status != CLIPPED:
            tau[i] = x[i]
        elif not isfinite(tau[i]):
            tau[i] = 0.0
        tau[i] = min(max(tau[i], lower[i]), upper[i])
    for i in range(n_rows):
        total = -b[i]
        size = fabs(b[i])
        for j in range(n_tau):
            total += A[i, j] * tau[j]
            size += fabs(A[i, j] * tau[j])
        if status == CLIPPED or total > 1e-9 * size:
            acts[i] = 0.0
        elif total < -1e-9 * size:
            acts[i] = -1.0
            status = GIVES_WAY
    return status
