"""Units: their texts, and dimensions of a machine's and a program's equations."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import sympy

from servonode.controllers import Program, residual
from servonode.controllers.engine.dimensions import program_mismatches
from servonode.mechanics import Model, coordinate, input_, output, parameter
from servonode.mechanics.dimensions import BASE, UnitError, machine_mismatches, parse_unit, unit_text


def powers(text: str) -> dict[str, Fraction]:
    """The powers of the base units that are in a unit."""
    return {name: power for name, power in zip(BASE, parse_unit(text), strict=True) if power}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", {}),
        ("rad", {}),
        ("N m s/rad", {"kg": 1, "m": 2, "s": -1}),
        ("kg m^2/s^2", {"kg": 1, "m": 2, "s": -2}),
        ("1/(m s)", {"m": -1, "s": -1}),
        ("m/s/s", {"m": 1, "s": -2}),
        ("m^0.5", {"m": Fraction(1, 2)}),
        ("N*m", {"kg": 1, "m": 2, "s": -2}),
        ("V/ohm", {"A": 1}),
        ("s^-1", {"s": -1}),
    ],
)
def test_a_unit_is_a_product_of_powers(text: str, expected: dict[str, Fraction]) -> None:
    assert powers(text) == expected


@pytest.mark.parametrize("text", ["kg m^2/s", "1/s", "J", "W", "N", "1", "kg/(m s)"])
def test_a_printed_unit_reads_back(text: str) -> None:
    assert unit_text(parse_unit(text)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lb", "'lb' is not known; known are kg, m, s"),
        ("deg", "radians"),
        ("1/m s", "ambiguous; write 1/(m s)"),
        ("m^x", "'x' is not a power"),
        ("(m", "a bracket is not closed"),
        ("m)", "')' is not expected here"),
        ("", "'' is not known"),
    ],
)
def test_what_is_no_unit_says_why(text: str, reason: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_unit(text)
    assert reason in str(caught.value)


def crane(units: dict[str, str], potential: Callable[..., Any], **more: Any) -> Model:
    """A trolley that carries a pendulum; `units` and `potential` are what may be wrong."""
    x, theta = coordinate("x", "place", "m"), coordinate("theta", "angle", "rad")
    m = parameter("m", "mass", units.get("m", "kg"), default=1.0)
    L, k = parameter("L", "length", "m", default=1.0), parameter("k", "spring", "N/m", default=1.0)
    g, F = parameter("g", "gravity", "m/s^2", default=9.81), input_("F", "force", units.get("F", "N"))
    speed = x.rate**2 + 2 * L * x.rate * theta.rate * sympy.cos(theta) + L**2 * theta.rate**2
    return Model(
        name="crane",
        description="crane",
        coordinates=(x, theta),
        parameters=(m, L, k, g),
        kinetic=m * speed / 2,
        potential=potential(m, g, L, k, x, theta),
        inputs={F: x.rate},
        **more,
    )


def good(m: Any, g: Any, L: Any, k: Any, x: Any, theta: Any) -> Any:
    return -m * g * L * sympy.cos(theta) + k * x**2 / 2


def test_equations_that_fit_are_passed_in_silence() -> None:
    assert machine_mismatches(crane({}, good)) == ([], [])


def test_what_does_not_fit_is_named_with_its_units_and_its_place() -> None:
    (text,) = machine_mismatches(crane({}, lambda m, g, L, k, x, theta: m * g + k * x**2 / 2))[0]  # noqa: ARG005
    assert text.startswith("potential: ")
    assert "g*m (N)" in text
    assert "k*x**2/2 (J)" in text or "x**2*k/2 (J)" in text
    assert "test_units.py line " in text
    (text,) = machine_mismatches(crane({"F": "N m"}, good))[0]
    assert text.startswith("input F (N m) does work on x_dot (m/s): ")
    assert text.endswith("it must be in W, the input in N")
    found = machine_mismatches(crane({"m": "kg/m"}, good))[0]
    assert any(text.startswith("kinetic is ") and "it must be in J" in text for text in found)
    seen = output("load", "position of the load", coordinate("x", "place", "m"), "m/s")
    (text,) = machine_mismatches(crane({}, good, outputs=(seen,)))[0]
    assert text.startswith("output load is x, in m; it must be in m/s")


def test_a_unit_that_is_not_known_is_told_apart_from_a_mismatch() -> None:
    wrong, unknown = machine_mismatches(crane({"m": "lb"}, good))
    assert wrong == []
    (text,) = unknown
    assert text.startswith("m: unit 'lb': 'lb' is not known; known are kg, m, s")


@pytest.mark.parametrize(
    "potential",
    [
        lambda m, g, L, k, x, theta: 9.81 * m * x,  # noqa: ARG005
        lambda m, g, L, k, x, theta: x**2 / 2,  # noqa: ARG005
        lambda m, g, L, k, x, theta: 5 * x**2 + k * x**2,  # noqa: ARG005
        lambda m, g, L, k, x, theta: sympy.cos(3 * x),  # noqa: ARG005
    ],
)
def test_numbers_that_may_carry_a_unit_are_passed_in_silence(potential: Any) -> None:
    assert machine_mismatches(crane({}, potential)) == ([], [])


def test_a_program_is_held_against_the_units_of_its_machine() -> None:
    model = crane({}, good)
    x, k = model["x"], model["k"]
    stated = Program(name="stated", description="", residuals=(residual("place", x + x.rate, "sum", "m"),))
    (text,) = program_mismatches(model, stated)[0]
    assert text.startswith("residual place: x_dot (m/s) is added to x (m)")
    feedback = Program(name="fed", description="", residuals=(), inputs={model["F"]: -k * x - k * x.rate})
    (text,) = program_mismatches(model, feedback)[0]
    assert text.startswith("input F: ")
    literal = Program(name="fed", description="", residuals=(), inputs={model["F"]: -4 * x - 2 * x.rate})
    assert program_mismatches(model, literal) == ([], [])
