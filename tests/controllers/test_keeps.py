"""What a law keeps: rows of barriers against motions and contact forces, faces, relative degrees, what is refused."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose, assert_array_equal

import servonode
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers import Program, ServoLaw, keep, load_law, residual
from servonode.controllers.engine.faces import smooth_parts
from servonode.controllers.engine.keeping import Keeping, KeepNumbers, StatedKeep
from servonode.controllers.engine.servo import derive_servo
from servonode.definitions.source_location import NOWHERE
from servonode.errors import ModelError
from servonode.mechanics import Model, coordinate, input_, parameter
from servonode.mechanics.derive import derive

Array = Any
EXAMPLES = "examples"
RATE = 5.0
KEPT: Mapping[str, tuple[Mapping[str, str], tuple[int, ...]]] = {
    "trailer_pursuit": ({"V": "0.2 - V", "box": "min(5 - X, Y + 3)", "turn": "1 - abs(psi) + 0.1*t"}, (1, 2, 2, 2, 2)),
    "sphero_pursuit": ({"spin": "3 - Omega_0**2 - Omega_1**2", "upright": "q_0"}, (1, 2)),
    "snowboarder_carve": ({"lean": "1.2 - abs(theta)"}, (2, 2)),
    "examples/elastic_arm/arm": ({"link": "1.2 - q", "motor": "2 - p", "speed": "4 - q_dot"}, (2, 4, 1)),
}
EXTENDED: Mapping[str, tuple[Mapping[str, str], tuple[int, ...]]] = {  # of which integrators determine an input
    "examples/crane/crane": ({"swing": "0.3 - abs(theta)", "deep": "5 - l*cos(theta)", "taut": "S"}, (2, 2, 4, 2)),
    "examples/quadrotor/quadrotor": ({"tilt": "0.3 - theta", "high": "z + 0.5", "push": "9 - tau"}, (2, 4, 0)),
}


def loop_of(file: str) -> ClosedLoop:
    return servonode.load(f"{file}.toml" if "/" in file else file).closed_loop


def law_of(closed_loop: ClosedLoop, keeps: Mapping[str, str], limits: bool = False, **more: Any) -> ServoLaw:
    """The law of a closed loop that keeps these as well, at RATE and without brakes."""
    control = closed_loop.control
    assert control is not None
    keeping = Keeping({name: StatedKeep(text) for name, text in keeps.items()}, limits=limits, **more)
    law, built = control.law, (control.believed.key, control.believed.build, control.options)
    law = load_law(control.source, law.machine, *built, law.parameters, control.stated.damping, keeping=keeping)
    law.use(control.gains)
    numbers = KeepNumbers(RATE, np.inf, 0.0, 1e-3)
    most = np.array(closed_loop.safety.limits.value)
    law = law.keeping({each.quantity.name: numbers for each in law.description.keeps}, -most, most)
    return law.with_own_states(0.0, closed_loop.start, control.goal(0.0))


def moved(machine: Any, t: float, x: Array, u: Array, h: float) -> Array:
    """The state h [s] later, by one step of RK4."""

    def rate(at: float, state: Array) -> Array:
        dx = np.zeros(len(state))
        machine.kernel.derivatives(at, state, u, machine.c, dx)
        return dx

    a = rate(t, x)
    b = rate(t + h / 2, x + h / 2 * a)
    c = rate(t + h / 2, x + h / 2 * b)
    return x + h / 6 * (a + 2 * b + 2 * c + rate(t + h, x + h * c))


@pytest.mark.parametrize("file", KEPT)
def test_a_row_is_what_its_last_function_does_along_the_motion(file: str) -> None:
    closed_loop, (keeps, degrees) = loop_of(file), KEPT[file]
    law, machine, t, e = law_of(closed_loop, keeps), closed_loop.machine, 0.3, 1e-6
    assert tuple(r for each in law.description.keeps for r in each.degrees) == degrees
    rng = np.random.default_rng(1)
    for brake in (np.inf, 0.4):
        numbers = KeepNumbers(RATE, brake, 0.05, 1e-3)
        law = law.keeping(dict.fromkeys(law.keep_numbers, numbers), *law.limits)
        for _ in range(3):
            x = closed_loop.start.copy()
            x[: machine.n_state] += rng.uniform(-0.1, 0.1, machine.n_state)
            u = rng.uniform(-0.3, 0.3, machine.n_inputs)
            ahead, now, behind = (
                law.keep_rows(t + h, moved(machine, t, x, u, h) if h else x, closed_loop.goal(t + h))
                for h in (e, 0, -e)
            )
            found = now[:, 4:] @ u - now[:, 2]
            wanted = (ahead[:, 1] - behind[:, 1]) / (2 * e) + RATE * now[:, 1]
            assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("file", EXTENDED)
def test_a_row_of_a_law_with_integrators_is_one_of_its_unknowns(file: str) -> None:
    closed_loop, (keeps, degrees) = loop_of(file), EXTENDED[file]
    law, machine, t, e = law_of(closed_loop, keeps), closed_loop.machine, 0.3, 1e-5
    assert tuple(r for each in law.description.keeps for r in each.degrees) == degrees
    rng, part = np.random.default_rng(1), law.goal_layout.states
    for _ in range(3):
        x, y, rates = closed_loop.start.copy(), closed_loop.goal(t), np.zeros(part.stop - part.start)
        x[: machine.n_state] += rng.uniform(-0.1, 0.1, machine.n_state)
        y[part] = rng.uniform(0.0, 9.0, len(rates))
        u = law.evaluate(t, x, y).inputs
        law.kernel.state_rates(t, x, y, law.c, rates)
        ahead, now, behind = (_rows_at(law, closed_loop, t + h, x, u, y[part] + h * rates, h) for h in (e, 0, -e))
        held = int(np.flatnonzero([each.name in ("M_w", "T") for each in machine.description.inputs])[0])
        unknowns = u.copy()
        unknowns[held] = rates[-1]
        wanted = (ahead[:, 1] - behind[:, 1]) / (2 * e) + RATE * now[:, 1]
        wanted[np.array(degrees) == 0] = 9 - u[1]
        assert_allclose(now[:, 4:] @ unknowns - now[:, 2], wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


def _rows_at(law: ServoLaw, closed_loop: ClosedLoop, t: float, x: Array, u: Array, states: Array, h: float) -> Array:
    y = closed_loop.goal(t)
    y[law.goal_layout.states] = states
    return law.keep_rows(t, moved(closed_loop.machine, t - h, x, u, h) if h else x, y)


def test_contact_forces_are_those_of_the_full_form() -> None:
    closed_loop = loop_of("trailer_pursuit")
    names = closed_loop.machine.description.constraints
    law = law_of(closed_loop, {f"of_{name}": f"3 - {name} + U1" for name in names})
    x, u, y = closed_loop.start.copy(), np.array([0.3, -0.2]), closed_loop.goal(0.0)
    x[: closed_loop.machine.n_state] += np.linspace(0.0, 0.2, closed_loop.machine.n_state)
    rows = law.keep_rows(0.0, x, y)
    assert_allclose(rows[:, 4:] @ u - rows[:, 2], 3 - closed_loop.machine.full(0.0, x, u)[1] + u[0], rtol=1e-10)


def test_a_row_that_is_rounding_alone_is_zero() -> None:
    """At rest no torque presses the robot's wheels aside: its coefficients would be 2.8e-16."""
    closed_loop = loop_of("trailer_pursuit")
    (row,) = law_of(closed_loop, {"side": "3 - Lambda2"}).keep_rows(0.0, closed_loop.start, closed_loop.goal(0.0))
    assert (row[4:] == 0.0).all()


def test_with_nothing_to_keep_the_inputs_have_the_bits_of_the_law_alone() -> None:
    closed_loop = loop_of("trailer_pursuit")
    law, x, y = law_of(closed_loop, {"far": "100 - X"}, limits=True), closed_loop.start, closed_loop.goal(0.0)
    assert closed_loop.control is not None
    alone, kept = closed_loop.control.law.evaluate(0.0, x, y), law.evaluate(0.0, x, y)
    assert_array_equal(kept.inputs, alone.inputs)
    assert (kept.keeping, kept.status, *kept.active, *kept.margins) == (0, 0, 0.0, 100.0)


def cart(**more: Any) -> tuple[Any, Any]:
    x, F = coordinate("x", "place", "m"), input_("F", "force", "N")
    model = Model(
        name="cart", description="a cart", coordinates=(x,), kinetic=x.rate**2 / 2, inputs={F: x.rate}, **more
    )
    return model, (x, F)


def program_of(x: Any, *keeps: Any) -> Program:
    return Program(name="to", description="to 2", residuals=(residual("place", x - 2, "place", "m"),), keep=keeps)


def test_faces_are_the_sides_of_what_is_kept() -> None:
    a, b, c = (sympy.Symbol(name, real=True) for name in "abc")
    none: Any = NOWHERE
    assert smooth_parts(1 - abs(a), "it", none) == [1 - a, 1 + a]
    assert set(smooth_parts(sympy.Min(a, b) - 2 * abs(c), "it", none)) == {a - 2 * c, a + 2 * c, b - 2 * c, b + 2 * c}
    assert set(smooth_parts(sympy.Min(a, 1 - abs(b)), "it", none)) == {a, 1 - b, 1 + b}
    assert smooth_parts(-sympy.Max(a, b), "it", none) == [-a, -b]
    assert set(smooth_parts(1 - 2 * sympy.Max(abs(a), abs(b)), "it", none)) == {1 - 2 * s for s in (a, -a, b, -b)}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("abs(x) - 1", "allows two separate parts; keep one of them"),
        ("max(x, 1 - x)", "allows two separate parts"),
        ("1 - sqrt(abs(x))", "whose sides can be kept one by one"),
        ("1 - F**2", "is not linear in forces, accelerations and inputs"),
        ("1 - p", "no input of cart moves it"),
        ("1 - z", "'z' is neither a state or parameter"),
        ("1 - sign(x)", "no input of cart moves it"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_reason(expression: str, text: str) -> None:
    p = parameter("p", "a number", default=1.0)
    model, (x, F) = cart(parameters=(p,))
    z = sympy.Symbol("z", real=True)
    known = {"x": x, "F": F, "p": p, "z": z, "abs": abs, "max": sympy.Max, "sqrt": sympy.sqrt, "sign": sympy.sign}
    stated = sympy.sympify(expression, known)
    with pytest.raises(ModelError, match=text.replace("(", r"\(")):
        derive_servo(derive(model), program_of(x, keep("it", stated, "it")))


def test_more_rows_than_the_solver_takes_are_refused() -> None:
    model, (x, _) = cart()
    keeps = [keep(f"k{i}", 1 + i - abs(x), "it", "m") for i in range(21)]
    with pytest.raises(ModelError, match="its keeps have 42 rows; at most 40 can be kept"):
        derive_servo(derive(model), program_of(x, *keeps))


def test_a_tiny_coefficient_is_no_relative_degree() -> None:
    """An input that enters by 1e-10 of what it moves elsewhere does not count (CBFKit, issue 140)."""
    x, y = coordinate("x", "place", "m"), coordinate("y", "place", "m")
    F = input_("F", "force", "N")
    kinetic = (x.rate**2 + y.rate**2) / 2
    model = Model(
        "two", "two carts", kinetic, coordinates=(x, y), potential=(x - y) ** 2, inputs={F: x.rate + y.rate * 1e-10}
    )
    program = Program(
        name="to",
        description="to 2",
        residuals=(residual("place", x - 2, "place", "m"),),
        keep=(keep("end", 1 - y, "end", "m"),),
    )
    assert [each.degree for each in derive_servo(derive(model), program).faces] == [4]


@pytest.mark.parametrize("word", ["rate", "brake", "tolerance"])
def test_a_number_that_is_not_above_0_is_refused(word: str) -> None:
    with pytest.raises(ModelError, match=f"keep it: its {word} is 0.0; give a finite number above 0"):
        keep("it", coordinate("x", "place", "m"), "it", **{word: 0.0})


def test_where_a_row_acts_the_law_is_the_nearest_that_keeps_it() -> None:
    closed_loop = loop_of("trailer_pursuit")
    law, y = law_of(closed_loop, {"fast": "V - 0.2"}), closed_loop.goal(0.0)
    x = closed_loop.start.copy()
    x[closed_loop.machine.description.state_names.index("V")] = 0.2
    assert closed_loop.control is not None
    alone, kept = closed_loop.control.law.evaluate(0.0, x, y), law.evaluate(0.0, x, y)
    (row,) = law.keep_rows(0.0, x, y)
    assert row[4:] @ alone.inputs < row[2]
    assert_allclose(row[4:] @ kept.inputs, row[2], atol=1e-9)
    W, K0 = law.terms(0.0, x, y)["W"], np.diag(law.K[0])
    H = (W / K0[:, None]).T @ (W / K0[:, None])
    slope = H @ (kept.inputs - alone.inputs)  # along the row alone, where it is the nearest
    assert_allclose(slope / row[4:], np.full(2, (slope / row[4:])[0]), rtol=1e-6)
    assert (kept.status, kept.keeping, *kept.active) == (0, 1, 1.0)


def test_a_violated_keep_stops_the_law_by_its_name() -> None:
    closed_loop = loop_of("trailer_pursuit")
    x, y = closed_loop.start.copy(), closed_loop.goal(0.0)
    law = law_of(closed_loop, {"slow": "0.2 - V", "west": "X - 1"})
    found = law.evaluate(0.0, x, y)
    assert found.status == len(law.description.guards) + 2
    assert law.explain(found).startswith("keep west: X - 1 is -1 m, below 0 by more than its tolerance 0.001")


def test_its_numbers_travel_as_one_vector() -> None:
    law = law_of(loop_of("trailer_pursuit"), {"slow": "0.2 - V"}, limits=True)
    other = law.keeping({"slow": KeepNumbers(1.0, 2.0, 3.0, 4.0)}, np.array([-1.0, -2.0]), np.array([3.0, 4.0]))
    again = law.with_numbers(other.numbers())
    assert again.keep_numbers == other.keep_numbers == {"slow": KeepNumbers(1.0, 2.0, 3.0, 4.0)}
    assert_array_equal(again.limits, [[-1.0, -2.0], [3.0, 4.0]])
    assert_array_equal(again.c, other.c)


@pytest.mark.parametrize("name", ["keep_rate_end", "lower_limit_F"])
def test_a_machine_may_not_have_the_names_of_the_numbers_of_what_is_kept(name: str) -> None:
    model, (x, _) = cart(parameters=(parameter(name, "a number", default=1.0),))
    derive_servo(derive(model), program_of(x))
    with pytest.raises(ModelError, match=f"machine cart has the name '{name}', which is servonode's own"):
        derive_servo(derive(model), program_of(x, keep("end", 1 - x, "end", "m")))
