"""The initial condition of a hoop on a profile, and how it is integrated: E_0, epsilon, lambda, step; refusals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.plants.hoop.motion import STATES, Hoop, ProfileTraversal, Rates, ReachableRange, largest_second_changes
from servonode.plants.hoop.profile import Ground, Profile, read
from servonode.plants.prepare import Preparation, Prepared, Unprepared, Wanted, number, require_fixed

LOST = "contact lost: the profile would have to pull (n < 0)"
START = ("q", "s", "z_a")
AUTO = ("E_0", "lambda", "epsilon")
FIXED = ("M", "r", "kappa", "g", "E_0")  # the rows of the reactions hold for numbers only
# lambda*step: what is advisable, and where residuals were seen to grow (at a step of 1e-3 s)
ADVISABLE = {"euler": 1.0, "rk2": 1.0, "heun": 1.0, "ralston": 1.0, "rk4": 0.5}
UNSTABLE = {"euler": 2.0, "rk2": 1.8, "heun": 1.9, "ralston": 1.8, "rk4": 2.6}
SECOND_STAGE = {"rk2": 1 / 2, "ralston": 2 / 3, "heun": 1.0}  # c_2 of the two-stage methods
PILOT = 600  # steps of the pilot run
FEWEST = 400  # steps there and back
TURNING = 0.004  # epsilon to the largest theta_dot
FINEST_NS = 10  # the smallest step that is chosen [ns]
SMALL_RATE = 10.0  # lambda [1/s] of RK4, and the least of the others
SAME_ENERGY = 1e-9  # [J] per J: an E_0 further from the initial energy is another one


@dataclass(frozen=True)
class Start:
    """The initial state, its contact point (q, height, slope, bend), the centre's speed, and energies [J].

    energy: E_0. highest: the largest of E_0, the state's energy, and that of rolling at the contact point with s.
    """

    state: Mapping[str, float]
    contact: Ground
    s: float
    energy: float
    highest: float


def prepare(wanted: Wanted) -> Prepared:
    """The consistent initial condition, and E_0, epsilon, lambda, step where these are left to servonode.

    Raises:
        Unprepared: the profile, the initial condition or a parameter cannot be, or the rows do not hold.
    """
    # the rows have the motion solved for, with constant parameters
    require_fixed(
        wanted,
        FIXED,
        "the reactions of the hoop are solved for gravity alone, and a disturbance makes them wrong; take it out",
        "the reactions of the hoop are solved for a constant one: it must be a number; give one",
    )
    if wanted.integrator not in UNSTABLE:
        text = f"no step and rate are known for {wanted.integrator} on this machine; choose {', '.join(UNSTABLE)}"
        raise Unprepared("plant", "integrator", text)
    values = wanted.parameters
    profile = read(str(wanted.settings["profile"]))
    hoop = Hoop(*(float(values[name]) for name in ("M", "r", "kappa", "g")))
    start = _start(wanted, profile, hoop)
    _check_energy(hoop, start)
    reach = ProfileTraversal(profile, hoop, start.contact, start.highest).reach(start.s, wanted.duration)
    epsilon = _given(wanted, "epsilon") or _epsilon(hoop, reach, start.highest, float(values["floor"]))
    rate, step = _rate_and_step(wanted, profile, hoop, start, reach, epsilon)
    notes = (*_check_rate(wanted, rate, step), *_energy_note(wanted, hoop, start, rate))
    rates = Rates(profile, hoop, rate, epsilon, start.energy)
    _check_contact(rates, start, wanted.initial)
    found = {"E_0": start.energy, "epsilon": epsilon, "lambda": rate}
    return Prepared(
        initial=dict(start.state),
        parameters={name: value for name, value in found.items() if name not in wanted.given},
        step=step if wanted.step is None else None,
        notes=notes,
    )


def _given(wanted: Wanted, name: str) -> float | None:
    return float(wanted.parameters[name]) if name in wanted.given else None


def _start(wanted: Wanted, profile: Profile, hoop: Hoop) -> Start:
    """The start from q and s, with states given beside them in their place; or from a state that is given in full."""
    given = {name: number(wanted.initial, name) for name in wanted.initial}
    states = {name: given[name] for name in STATES if name in given}
    if not any(name in given for name in START) and {"x", "z", "alpha"} <= states.keys():
        state = dict.fromkeys(STATES, 0.0) | states
        q, near = (state[name] + hoop.r * way(state["alpha"]) for name, way in (("x", math.cos), ("z", math.sin)))
        contact = _contact(profile, q, near, "x", ", where the hoop would touch")
        chi = (-math.sin(state["alpha"]), math.cos(state["alpha"]))
        s = state["x_dot"] * chi[0] + state["z_dot"] * chi[1]
        energy = hoop.energy(state)
    else:
        s = given.get("s", 0.0)
        if "z_a" in given and not profile.implicit:
            text = "the profile z = p(x) has one height at q; z_a is for curves h(x, z) = 0, leave it out"
            raise Unprepared("plant.initial", "z_a", text)
        contact = _contact(profile, given.get("q", 1.0), given.get("z_a"), "q", "; choose another q")
        state = hoop.start(contact, s)
        energy = hoop.energy(state)
        state |= states
    kept = _given(wanted, "E_0")
    kept = energy if kept is None else kept
    rolling = hoop.M * (hoop.g * float(contact.centre(hoop.r)[1]) + (1 + hoop.kappa) * s**2 / 2)
    return Start(state, contact, s, kept, max(kept, energy, rolling, hoop.energy(state)))


def _contact(profile: Profile, q: float, near: float | None, key: str, remedy: str) -> Ground:
    """The profile point at q: the one nearest to a height, else the only one; `key`, `remedy`: where none exists."""
    heights = profile.heights(q, 0.0 if near is None else near)
    if not heights:
        raise Unprepared("plant.initial", key, f"there is no profile point at x = {q:g}{remedy}")
    falls = [z for z in heights if float(profile.jet(q, z).z) < 0]
    if near is None and len(falls) > 1:
        several = ", ".join(f"{z:g}" for z in sorted(falls[:6]))
        text = f"the profile has several heights at x = {q:g}; give one as z_a: {several}"
        raise Unprepared("plant.initial", "q", text)
    z = falls[0] if near is None and falls else heights[0]
    if z not in falls:
        raise _wrong_sign(profile, q, z)
    return profile.at(q, z)


def _wrong_sign(profile: Profile, q: float, z: float) -> Unprepared:
    h_z = float(profile.jet(q, z).z)
    if h_z == 0:
        text = f"the profile is vertical at x = {q:g}, z = {z:g}; choose another initial state"
        return Unprepared("plant.settings", "profile", text)
    text = f"h rises upwards (h_z = {h_z:.3g} > 0) at x = {q:g}, z = {z:g}; turn its sign: profile = "
    return Unprepared("plant.settings", "profile", f'{text}"{profile.turned}"')


def _check_energy(hoop: Hoop, start: Start) -> None:
    """Refuse an E_0 with which no hoop is at the place of the start: the energy row would hold it up there."""
    least = hoop.M * hoop.g * min(float(start.contact.centre(hoop.r)[1]), start.state["z"])
    if start.energy < least - SAME_ENERGY * (1 + abs(least)):
        text = f"{start.energy:.6g} J is less than the hoop has at rest where it starts, M g z = {least:.6g} J"
        remedy = f"leave E_0 out to keep the initial energy, {hoop.energy(start.state):.6g} J"
        raise Unprepared("plant.parameters", "E_0", f"{text}; {remedy}")


def _energy_note(wanted: Wanted, hoop: Hoop, start: Start, rate: float) -> tuple[str, ...]:
    """How far the start is from an E_0 that is given."""
    real = hoop.energy(start.state)
    off = real - start.energy
    if "E_0" not in wanted.given or abs(off) <= SAME_ENERGY * (1 + abs(real) + abs(start.energy)):
        return ()
    after = f"decays at the rate lambda = {rate:g} 1/s while the hoop rolls" if rate else "stays, for lambda = 0"
    text = f"the initial state has {real:.6g} J and E_0 is {start.energy:.6g} J: the residual 'energy' starts at "
    return (f"{text}{off:.4g} J and {after}; leave E_0 out to keep the initial energy",)


def _epsilon(hoop: Hoop, reach: ReachableRange, energy: float, floor: float) -> float:
    """The width of turning points [rad/s]: a small part of the largest theta_dot, rounded to one digit."""
    heights = np.atleast_1d(reach.points.centre(hoop.r)[1])
    i = int(np.argmin(heights))
    if len(heights) > 1 and ((i == 0 and not reach.turns[0]) or (i == len(heights) - 1 and not reach.turns[1])):
        return 0.02 / hoop.r  # it continues falling when the time is over
    fastest = 2 * (energy - hoop.M * hoop.g * float(heights[i])) / ((1 + hoop.kappa) * hoop.M * hoop.r**2)
    return float(f"{max(TURNING * math.sqrt(max(fastest, 0.0)), 10 * floor / hoop.r):.0e}")


def _rate_and_step(
    wanted: Wanted, profile: Profile, hoop: Hoop, start: Start, reach: ReachableRange, epsilon: float
) -> tuple[float, float]:  # fmt: skip
    """lambda [1/s] and the step [s], each the given one or found."""
    rate, step, floor = _given(wanted, "lambda"), wanted.step, float(wanted.parameters["floor"])
    longest = min(reach.period, wanted.duration) / FEWEST
    if step is None:
        if wanted.integrator == "rk4":
            pilot = Rates(profile, hoop, SMALL_RATE if rate is None else rate, epsilon, start.energy)
            step = _fourth_order_step(pilot, start, floor, min(reach.period, wanted.duration))
        else:
            S = float(largest_second_changes(profile, hoop, reach)[1:].max())
            step = _low_order_step(wanted.integrator, S, floor, rate)
        step = _rounded(min(step, longest), wanted.duration, floor)
    if rate is None:
        rate = _rate(wanted.integrator, step)
    return rate, step


def _rate(integrator: str, step: float) -> float:
    """The rate [1/s] that is taken for a step."""
    if integrator == "rk4":
        rate = min(SMALL_RATE, 0.1 / step)
    elif integrator == "euler":
        rate = 0.1 / step
    else:
        rate = min(max(SMALL_RATE, 0.01 / step), 0.1 / step)
    return float(f"{rate:.12g}")


def _low_order_step(integrator: str, S: float, floor: float, rate: float | None) -> float:
    """The step [s] at which Euler's or a two-stage method leaves residuals of the size `floor`."""
    if S == 0:
        return math.inf
    if integrator == "euler":  # |f| = S step/(2 lambda), lambda = 0.1/step where it is not given
        return math.sqrt(0.2 * floor / S) if rate is None else 2 * rate * floor / S
    return math.sqrt(4 * floor / (SECOND_STAGE[integrator] * S))


def _fourth_order_step(pilot: Rates, start: Start, floor: float, time: float) -> float:
    """The step [s] at which RK4 leaves residuals of the size `floor`, from a pilot run there and back."""
    step = min(time / PILOT, 0.1 / max(pilot.rate, 1e-300))
    state = pilot.hoop.start(start.contact, _fastest(pilot.hoop, start))
    x = np.array([state[name] for name in STATES])
    pilot = Rates(pilot.profile, pilot.hoop, pilot.rate, pilot.epsilon, pilot.hoop.energy(state))
    with np.errstate(all="ignore"):
        left = pilot.largest_residual(x, step, min(PILOT, round(time / step)))
    return step * math.sqrt(math.sqrt(floor / left)) if left else math.inf


def _fastest(hoop: Hoop, start: Start) -> float:
    """The speed [m/s] at the initial contact point with the highest energy; the initial one if that is its energy."""
    own = hoop.energy(hoop.start(start.contact, start.s))
    if start.highest - own <= SAME_ENERGY * (1 + abs(own)):
        return start.s
    way = start.s or -float(start.contact.slope)
    return math.copysign(math.sqrt(float(hoop.speed_squared(start.contact, start.highest))), way)


def _rounded(step: float, duration: float, floor: float) -> float:
    """The largest of 1, 2, 5 times a power of ten [s] up to this step that divides the duration."""
    whole = round(duration * 1e9)
    choices: list[int] = [digit * 10**power for power in range(12) for digit in (1, 2, 5)]
    fitting = [ns for ns in choices if FINEST_NS <= ns <= step * 1e9 and whole % ns == 0]
    if not fitting or (fitting[-1] < step * 1e7):
        remedy = "give step as a number, a duration with fewer digits, or a larger floor"
        text = f"no round step near {step:.2g} s (for residuals of {floor:g}) divides the duration"
        raise Unprepared("plant", "step", f"{text}; {remedy}")
    return fitting[-1] / 1e9


def _check_rate(wanted: Wanted, rate: float, step: float) -> tuple[str, ...]:
    """Notes on lambda times step.

    Raises:
        Unprepared: the residuals would grow.
    """
    product, method = rate * step, wanted.integrator
    if product >= UNSTABLE[method] * (1 - 1e-9):
        text = f"lambda*step = {product:.3g}: residuals grow with {method} from {UNSTABLE[method]:g} on"
        raise Unprepared("plant.parameters", "lambda", f"{text}; take lambda up to {ADVISABLE[method] / step:g}")
    notes: list[str] = []
    if product > ADVISABLE[method] * (1 + 1e-9):
        notes.append(f"lambda*step = {product:.3g} is near the limit of {method}; stay up to {ADVISABLE[method]:g}")
    if "lambda" in wanted.varying:
        text = f"lambda varies and was judged at t = 0 only: with this step it may become {ADVISABLE[method] / step:g}"
        notes.append(f"{text}, and from {UNSTABLE[method] / step:g} on residuals grow with {method}")
    return tuple(notes)


def _check_contact(rates: Rates, start: Start, initial: Mapping[str, Any]) -> None:
    n = _normal_force(rates, start.state)
    if n >= 0:
        return
    key, remedy = _blame(rates, start, initial)
    raise Unprepared("plant.initial", key, f"{LOST} already in the initial state, n = {n:.4g} N; {remedy}")


def _normal_force(rates: Rates, state: Mapping[str, float]) -> float:
    """n [N] with the residuals that the state has."""
    with np.errstate(all="ignore"):
        return rates.normal_force(np.array([state[name] for name in STATES]))


def _blame(rates: Rates, start: Start, initial: Mapping[str, Any]) -> tuple[str, str]:
    """The key of [plant.initial] by which contact is lost, and how to fix it: speed, place or velocity."""
    onto, state = rates.hoop.start(start.contact, start.s), start.state
    if not _normal_force(rates, onto) >= 0:
        return "s", "start slower, or where the profile is less convex"
    places = [name for name in ("x", "z", "alpha") if name in initial]
    placed = {**state, **{name: onto[name] for name in ("x", "z", "alpha")}}
    if places and _normal_force(rates, placed) >= 0:
        r = rates.hoop.r
        x_a, z_a = state["x"] + r * math.cos(state["alpha"]), state["z"] + r * math.sin(state["alpha"])
        gap = math.hypot(x_a - float(start.contact.q), z_a - float(start.contact.p))
        turned = abs(math.remainder(state["alpha"] - onto["alpha"], 2 * math.pi))
        text = f"the initial state is off the profile by {gap:.4g} m, and alpha by {turned:.4g} rad"
        return places[0], f"{text}; leave x, z, alpha out and they follow from q"
    key = next((name for name in ("x_dot", "z_dot") if name in initial), "s")
    return key, "the initial velocity leads off the profile; leave x_dot, z_dot, theta_dot out and give s"


PREPARE = Preparation(prepare, start=START, auto=AUTO, settles_step=True)
