"""The adaptive integrator DOP853 as text of the kernel language: steps, dense output, and roots of events on it.

A step has order 8; its error is that of embedded formulas of order 5 and 3, and the dense output has order 7 (Hairer,
Norsett & Wanner, Solving Ordinary Differential Equations I, 2nd ed. 1993, II.5, II.6 and II.10). Coefficients, error
norm, choice of steps and search for roots are those of `scipy.integrate.solve_ivp`, so that the steps are its steps.

A module that takes this text has a function `rates(t, m, y, CONTEXT, dy) -> i64` that writes x' of m states and
returns 0, or another number where they cannot be evaluated: the integration then stops. CONTEXT are arguments that
are passed on. For roots it has `event(which, t, y, CONTEXT) -> f64`, which is nan where it cannot be evaluated.

The integration stands in `solver`: the time, the length of the next step (0: to be chosen), the time before the last
step, and that of an evaluation that was refused, whose state is in `beside`. Arrays hold m entries, K 16 m, F 7 m.
"""

from collections.abc import Mapping

Weights = Mapping[int, float]  # by stage
TIME, LENGTH, BEFORE, REFUSED_AT = range(4)  # entries of `solver`
GOOD, TOO_SMALL, REFUSED = 0, 1, 2  # what a step returns
ARRAYS = {"y": 1, "y_old": 1, "f": 1, "K": 16, "F": 7, "beside": 1, "dy": 1}  # entries of each for each state

C = (
    0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726, 0.3333333333333333,
    0.25, 0.3076923076923077, 0.6512820512820513, 0.6, 0.8571428571428571, 1.0, 1.0, 0.1, 0.2,
    0.7777777777777778,
)  # fmt: skip
A: tuple[Weights, ...] = (  # rows of stages; row 12 is the new state, those after it serve the dense output alone
    {},
    {0: 0.05260015195876773},
    {0: 0.0197250569845379, 1: 0.0591751709536137},
    {0: 0.02958758547680685, 2: 0.08876275643042054},
    {0: 0.2413651341592667, 2: -0.8845494793282861, 3: 0.924834003261792},
    {0: 0.037037037037037035, 3: 0.17082860872947386, 4: 0.12546768756682242},
    {0: 0.037109375, 3: 0.17025221101954405, 4: 0.06021653898045596, 5: -0.017578125},
    {0: 0.03709200011850479, 3: 0.17038392571223998, 4: 0.10726203044637328, 5: -0.015319437748624402,
     6: 0.008273789163814023},
    {0: 0.6241109587160757, 3: -3.3608926294469414, 4: -0.868219346841726, 5: 27.59209969944671,
     6: 20.154067550477894, 7: -43.48988418106996},
    {0: 0.47766253643826434, 3: -2.4881146199716677, 4: -0.590290826836843, 5: 21.230051448181193,
     6: 15.279233632882423, 7: -33.28821096898486, 8: -0.020331201708508627},
    {0: -0.9371424300859873, 3: 5.186372428844064, 4: 1.0914373489967295, 5: -8.149787010746927,
     6: -18.52006565999696, 7: 22.739487099350505, 8: 2.4936055526796523, 9: -3.0467644718982196},
    {0: 2.273310147516538, 3: -10.53449546673725, 4: -2.0008720582248625, 5: -17.9589318631188,
     6: 27.94888452941996, 7: -2.8589982771350235, 8: -8.87285693353063, 9: 12.360567175794303,
     10: 0.6433927460157636},
    {0: 0.054293734116568765, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585,
     8: 0.3111643669578199, 9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.04471061572777259},
    {0: 0.056167502283047954, 6: 0.25350021021662483, 7: -0.2462390374708025, 8: -0.12419142326381637,
     9: 0.15329179827876568, 10: 0.00820105229563469, 11: 0.007567897660545699, 12: -0.008298},
    {0: 0.03183464816350214, 5: 0.028300909672366776, 6: 0.053541988307438566, 7: -0.05492374857139099,
     10: -0.00010834732869724932, 11: 0.0003825710908356584, 12: -0.00034046500868740456,
     13: 0.1413124436746325},
    {0: -0.42889630158379194, 5: -4.697621415361164, 6: 7.683421196062599, 7: 4.06898981839711,
     8: 0.3567271874552811, 12: -0.0013990241651590145, 13: 2.9475147891527724, 14: -9.15095847217987},
)  # fmt: skip
E3: Weights = {
    0: -0.18980075407240762, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585,
    8: -0.4226823213237919, 9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.02265179219836082,
}  # fmt: skip
E5: Weights = {
    0: 0.01312004499419488, 5: -1.2251564463762044, 6: -0.4957589496572502, 7: 1.6643771824549864,
    8: -0.35032884874997366, 9: 0.3341791187130175, 10: 0.08192320648511571, 11: -0.022355307863886294,
}  # fmt: skip
D: tuple[Weights, ...] = (  # of the dense output's last four terms
    {0: -8.428938276109013, 5: 0.5667149535193777, 6: -3.0689499459498917, 7: 2.38466765651207,
     8: 2.117034582445028, 9: -0.871391583777973, 10: 2.2404374302607883, 11: 0.6315787787694688,
     12: -0.08899033645133331, 13: 18.148505520854727, 14: -9.194632392478356, 15: -4.436036387594894},
    {0: 10.427508642579134, 5: 242.28349177525817, 6: 165.20045171727028, 7: -374.5467547226902,
     8: -22.113666853125306, 9: 7.733432668472264, 10: -30.674084731089398, 11: -9.332130526430229,
     12: 15.697238121770845, 13: -31.139403219565178, 14: -9.35292435884448, 15: 35.81684148639408},
    {0: 19.985053242002433, 5: -387.0373087493518, 6: -189.17813819516758, 7: 527.8081592054236,
     8: -11.57390253995963, 9: 6.8812326946963, 10: -1.0006050966910838, 11: 0.7777137798053443,
     12: -2.778205752353508, 13: -60.19669523126412, 14: 84.32040550667716, 15: 11.99229113618279},
    {0: -25.69393346270375, 5: -154.18974869023643, 6: -231.5293791760455, 7: 357.6391179106141,
     8: 93.40532418362432, 9: -37.45832313645163, 10: 104.0996495089623, 11: 29.8402934266605,
     12: -43.53345659001114, 13: 96.32455395918828, 14: -39.17726167561544, 15: -149.72683625798564},
)  # fmt: skip
_NEXT = 2.0**-53 * (1.0 + 2.0**-52)  # of a number, added to it: the next one (Rump et al., BIT 49, 2009)
_ROOT_TOLERANCE = 4 * 2.0**-52  # s, and share of the time

_STAGE = """\
    for i in range(m):
        beside[i] = {start}[i] + h*({sum})
    at[0] = t + {c!r}*h
    if rates(at[0], m, beside{given}, dy) != 0:
        return {refused}
    for i in range(m):
        K[{stage}*m + i] = dy[i]
"""
_FIRST = """\
def first_length(
    solver: f64[4], m: i64, end: f64, longest: f64, rtol: f64, atol: f64,
    y: f64[:], f: f64[:], beside: f64[:], dy: f64[:]{context}
) -> i64:
    \"\"\"Set the length of the first step, after the rates f at its beginning.\"\"\"
    t = solver[0]
    solver[3] = t
    for i in range(m):
        beside[i] = y[i]
    if rates(t, m, beside{given}, f) != 0:
        return {refused}
    if solver[1] > 0.0:
        return {good}
    d0 = 0.0
    d1 = 0.0
    for i in range(m):
        scale = atol + fabs(y[i])*rtol
        d0 += y[i]/scale*(y[i]/scale)
        d1 += f[i]/scale*(f[i]/scale)
    d0 = sqrt(d0)/sqrt(m)
    d1 = sqrt(d1)/sqrt(m)
    h0 = min(1e-06 if d0 < 1e-05 or d1 < 1e-05 else 0.01*d0/d1, end - t)
    for i in range(m):
        beside[i] = y[i] + h0*f[i]
    solver[3] = t + h0
    if rates(t + h0, m, beside{given}, dy) != 0:
        return {refused}
    d2 = 0.0
    for i in range(m):
        change = (dy[i] - f[i])/(atol + fabs(y[i])*rtol)
        d2 += change*change
    d2 = sqrt(d2)/sqrt(m)/h0
    h1 = max(1e-06, h0*0.001) if d1 <= 1e-15 and d2 <= 1e-15 else (0.01/max(d1, d2))**0.125
    solver[1] = min(100.0*h0, h1, end - t, longest)
    return {good}
"""
_STAGES = """\
def stages(
    t: f64, h: f64, m: i64, at: f64[1], y: f64[:], f: f64[:], K: f64[:], beside: f64[:], dy: f64[:]{context}
) -> i64:
    \"\"\"The stages of a step: in `beside` the state at its end, in dy the rates there.\"\"\"
    for i in range(m):
        K[i] = f[i]
{stages}    return {good}
"""
_STEP = """\
def step(
    solver: f64[4], m: i64, end: f64, longest: f64, rtol: f64, atol: f64,
    y: f64[:], y_old: f64[:], f: f64[:], K: f64[:], beside: f64[:], dy: f64[:]{context}
) -> i64:
    \"\"\"One accepted step towards `end`, none longer than `longest`.\"\"\"
    t = solver[0]
    least = 10.0*((t + ({next!r}*fabs(t) + 5e-324)) - t)
    length = min(max(solver[1], least), longest)
    rejected = False
    at = empty(1)
    while True:
        if not length >= least:
            return {too_small}
        ahead = min(t + length, end)
        h = ahead - t
        length = h
        if stages(t, h, m, at, y, f, K, beside, dy{given}) != 0:
            solver[3] = at[0]
            return {refused}
        five = 0.0
        three = 0.0
        for i in range(m):
            scale = atol + max(fabs(y[i]), fabs(beside[i]))*rtol
            e5 = ({E5})/scale
            e3 = ({E3})/scale
            five += e5*e5
            three += e3*e3
        error = 0.0 if five == 0.0 and three == 0.0 else h*five/sqrt((five + 0.01*three)*m)
        if error < 1.0:
            factor = 10.0 if error == 0.0 else min(10.0, 0.9*error**-0.125)
            solver[0] = ahead
            solver[1] = length*(min(1.0, factor) if rejected else factor)
            solver[2] = t
            for i in range(m):
                y_old[i] = y[i]
                y[i] = beside[i]
                f[i] = dy[i]
            return {good}
        length = length*max(0.2, 0.9*error**-0.125)
        rejected = True
"""
_DENSE = """\
def dense(
    solver: f64[4], m: i64, y: f64[:], y_old: f64[:], f: f64[:], K: f64[:], F: f64[:], beside: f64[:], dy: f64[:]
    {context}
) -> i64:
    \"\"\"The terms of the dense output over the last step.\"\"\"
    t = solver[2]
    h = solver[0] - t
    at = empty(1)
    for i in range(m):
        K[12*m + i] = f[i]
{extra}    for i in range(m):
        change = y[i] - y_old[i]
        F[i] = change
        F[m + i] = h*K[i] - change
        F[2*m + i] = 2.0*change - h*(f[i] + K[i])
{D}    return {good}


def interpolate(t: f64, solver: f64[4], m: i64, y_old: f64[:], F: f64[:], out: f64[:]):
    \"\"\"The state at a time within the last step.\"\"\"
    x = (t - solver[2])/(solver[0] - solver[2])
    for i in range(m):
        value = F[6*m + i]*x
        for j in range(5, -1, -1):
            value = (value + F[j*m + i])*(x if j % 2 == 0 else 1.0 - x)
        out[i] = value + y_old[i]
"""
_ROOT = """\
def root(
    which: i64, since: f64, until: f64, before: f64, after: f64,
    solver: f64[4], m: i64, y_old: f64[:], F: f64[:], beside: f64[:]{context}
) -> f64:
    \"\"\"Where an event happens between times of the last step, by Brent's method from its values there; or nan.\"\"\"
    previous, current, opposite = since, until, 0.0
    f_previous, f_current, f_opposite = before, after, 0.0
    s_previous, s_current = 0.0, 0.0
    if f_previous == 0.0:
        return previous
    for _ in range(100):
        if (f_previous < 0.0 and f_current > 0.0) or (f_previous > 0.0 and f_current < 0.0):
            opposite, f_opposite = previous, f_previous
            s_current = current - previous
            s_previous = s_current
        if fabs(f_opposite) < fabs(f_current):
            previous, current, opposite = current, opposite, current
            f_previous, f_current, f_opposite = f_current, f_opposite, f_current
        delta = ({tolerance!r} + {tolerance!r}*fabs(current))/2.0
        half = (opposite - current)/2.0
        if f_current == 0.0 or fabs(half) < delta or not isfinite(f_current):
            return current if isfinite(f_current) else f_current
        s_next = half
        if fabs(s_previous) > delta and fabs(f_current) < fabs(f_previous):
            if previous == opposite:
                tried = -f_current*(current - previous)/(f_current - f_previous)
            else:
                by_previous = (f_previous - f_current)/(previous - current)
                by_opposite = (f_opposite - f_current)/(opposite - current)
                below = by_opposite*by_previous*(f_opposite - f_previous)
                tried = -f_current*(f_opposite*by_opposite - f_previous*by_previous)/below
            if 2.0*fabs(tried) < min(fabs(s_previous), 3.0*fabs(half) - delta):
                s_previous, s_next = s_current, tried
            else:
                s_previous = half
        else:
            s_previous = half
        s_current = s_next
        previous, f_previous = current, f_current
        if fabs(s_current) > delta:
            current += s_current
        else:
            current += delta if half > 0.0 else -delta
        interpolate(current, solver, m, y_old, F, beside)
        solver[3] = current
        f_current = event(which, current, beside{given})
    return current
"""


def source(context: Mapping[str, str], events: bool = False) -> str:
    """The text of the functions; `context`: types by name of the arguments that `rates` has beside its own."""
    given = "".join(f", {name}" for name in context)
    words = {
        "context": "".join(f", {name}: {kind}" for name, kind in context.items()), "given": given,
        "good": GOOD, "too_small": TOO_SMALL, "refused": REFUSED, "next": _NEXT, "tolerance": _ROOT_TOLERANCE,
        "stages": "".join(_stage(s, "y", given) for s in range(1, 13)), "E5": _sum(E5), "E3": _sum(E3),
        "extra": "".join(_stage(s, "y_old", given) for s in range(13, 16)),
        "D": "".join(f"        F[{i}*m + i] = h*({_sum(row)})\n" for i, row in enumerate(D, 3)),
    }  # fmt: skip
    texts = (_FIRST, _STAGES, _STEP, _DENSE, *([_ROOT] if events else []))
    return "\n\n".join(each.format(**words) for each in texts)


def _stage(stage: int, start: str, given: str) -> str:
    """The lines that find K of a stage."""
    return _STAGE.format(
        start=start, sum=_sum(A[stage]), c=C[stage], given=given, stage=stage, refused=REFUSED
    )  # fmt: skip


def _sum(weights: Weights) -> str:
    return " + ".join(f"{weight!r}*K[{stage}*m + i]" for stage, weight in weights.items())
