"""Generated functions that solve linear equations with pivoting."""

import re

_SOLVE = '''\
def solve_{n}(S: f64[{n}, {n}], y: f64[{n}]) -> i64:
    """Solve S y = y by elimination with partial pivoting: the sign of det S, 0 where it is 0 to working precision."""
    sense = 1
    for j in range({n}):
        best = j
        for i in range(j + 1, {n}):
            if fabs(S[i, j]) > fabs(S[best, j]):
                best = i
        if not fabs(S[best, j]) > 0.0:
            return 0
        if best != j:
            sense = -sense
            for k in range(j, {n}):
                S[j, k], S[best, k] = S[best, k], S[j, k]
            y[j], y[best] = y[best], y[j]
        if S[j, j] < 0.0:
            sense = -sense
        for i in range(j + 1, {n}):
            factor = S[i, j] / S[j, j]
            if factor != 0.0:
                for k in range(j + 1, {n}):
                    S[i, k] -= factor * S[j, k]
                y[i] -= factor * y[j]
    for i in range({n} - 1, -1, -1):
        for k in range(i + 1, {n}):
            y[i] -= S[i, k] * y[k]
        y[i] /= S[i, i]
    return sense
'''

_SPD = '''\
def spd_{n}_{m}(S: f64[{n}, {n}], X: f64[{m}, {n}]):
    """Solve S x = x for each row x of X by L D L^T; S is positive definite, of it the lower triangle is used up."""
    for j in range({n}):
        inverse = 1.0 / S[j, j]
        for i in range(j + 1, {n}):
            if S[i, j] != 0.0:
                factor = S[i, j] * inverse
                for k in range(j + 1, i + 1):
                    S[i, k] -= factor * S[k, j]
        for i in range(j + 1, {n}):
            S[i, j] *= inverse
        S[j, j] = inverse
    for r in range({m}):
        for j in range({n}):
            if X[r, j] != 0.0:
                for i in range(j + 1, {n}):
                    X[r, i] -= S[i, j] * X[r, j]
        for i in range({n} - 1, -1, -1):
            X[r, i] *= S[i, i]
            for k in range(i + 1, {n}):
                X[r, i] -= S[k, i] * X[r, k]
'''


def solves(*texts: str) -> list[str]:
    """The functions `solve_N(S, y)` and `spd_N_M(S, X)` that these texts call."""
    sizes = {int(n) for text in texts for n in re.findall(r"\bsolve_(\d+)\(", text)}
    shapes = {(int(n), int(m)) for text in texts for n, m in re.findall(r"\bspd_(\d+)_(\d+)\(", text)}
    return [_SOLVE.format(n=n) for n in sorted(sizes)] + [_SPD.format(n=n, m=m) for n, m in sorted(shapes)]
