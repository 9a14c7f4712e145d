"""Models: what cannot be a machine is refused with a text that says how to fix it."""

from functools import partial
from typing import Any

import pytest
import sympy

from servonode.errors import ServonodeError
from servonode.mechanics import (
    Model,
    ModelError,
    condition,
    constraint,
    coordinate,
    input_,
    output,
    parameter,
    time,
    velocity,
)
from servonode.mechanics.derive import derive
from servonode.mechanics.machine_source import describe

x, y, z = (coordinate(name, f"coordinate {name}", "m") for name in "xyz")
v, w = (velocity(name, f"speed {name}", "m/s") for name in "vw")
m = parameter("m", "mass", "kg", default=1.0, above=0)
F = input_("F", "force", "N")
KINETIC = m * (x.rate**2 + y.rate**2) / 2


def particle(**changes: Any) -> Model:
    """A particle in a plane, with changes."""
    stated = {
        "name": "particle",
        "description": "particle in a plane",
        "parameters": (m,),
        "kinematics": {x: v, y: w},
        "velocities": (v, w),
        "kinetic": KINETIC,
        "inputs": {F: x.rate},
    }
    return Model(**{**stated, **changes})


def test_a_particle_is_derived() -> None:
    equations = derive(particle())
    assert equations.M_r == sympy.diag(m, m)
    assert equations.h_r == sympy.zeros(2, 1)
    assert equations.B_r == sympy.Matrix([1, 0])


def two_trailers(b_rate: Any) -> Model:
    """A robot and two trailers, all angles absolute, with the last trailer's speed as velocity."""
    a, b, c = (coordinate(name, "heading", "rad") for name in "abc")
    first = x.rate - a.rate * sympy.sin(a), y.rate + a.rate * sympy.cos(a)
    robot = first[0] - b.rate * sympy.sin(b), first[1] + b.rate * sympy.cos(b)

    def rolls(name: str, way: tuple[Any, Any], angle: Any) -> Any:
        return constraint(name, "side force", way[1] * sympy.cos(angle) - way[0] * sympy.sin(angle))

    return particle(
        coordinates=(x, y, a, b, c),
        kinetic=KINETIC + m * (a.rate**2 + b.rate**2 + c.rate**2) / 2,
        velocities=(v,),
        kinematics={x: v * sympy.cos(a), y: v * sympy.sin(a), a: v * sympy.tan(b - a), b: b_rate(a, b, c)},
        constraints=(rolls("S0", robot, c), rolls("S1", first, b), rolls("S2", (x.rate, y.rate), a)),
    )


def test_right_kinematics_of_which_no_proof_is_known_are_shown_by_numbers() -> None:
    found = derive(two_trailers(lambda a, b, c: v / sympy.cos(b - a) * sympy.tan(c - b)))
    assert found.by_numbers == ("S0", "S1")
    assert describe(found.model, found.by_numbers).by_numbers == ("S0", "S1")
    assert derive(particle()).by_numbers == ()


@pytest.mark.parametrize("name", ["", "2x", "m 1", "m-1", "φ", "j" * 101, "t", "x_dot", "x_ddot"])
def test_a_name_that_is_no_plain_identifier_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"names are ASCII identifiers|'t' is the time|_dot and _ddot mark") as caught:
        coordinate(name, "something")
    assert repr(name)[:80] in str(caught.value)


@pytest.mark.parametrize("text", ["\x1b[2Jred", "a\r\nverdict yes", "\u202egnp.exe", "a\0b", "\ud800"])
def test_a_text_that_a_terminal_would_not_show_as_it_stands_is_refused(text: str) -> None:
    made = [lambda: coordinate("q", "", text), lambda: parameter("p", text), lambda: output("o", text, x)]
    made += [partial(particle, **{word: text}) for word in ("name", "description")]
    made += [partial(particle, identities={text: x - y}), partial(particle, notes=[text])]
    for each in (*made, lambda: condition(x > 0, text)):
        with pytest.raises(ServonodeError, match="has characters that are not printed; write one plain line") as caught:
            each()
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["lambda", "c", "u", "w1", "k0", "sin", "x_", "_p"])
def test_a_name_that_generated_code_uses_itself_is_accepted(name: str) -> None:
    assert parameter(name, "something").name == name


@pytest.mark.parametrize(
    ("relation", "margin", "strict"),
    [(m > 2, m - 2, True), (m >= 2, m - 2, False), (m < 2, 2 - m, True), (m <= 2, 2 - m, False)],
)
def test_a_condition_becomes_a_margin(relation: Any, margin: Any, strict: bool) -> None:
    stated = condition(relation, "text")
    assert stated.margin == margin
    assert stated.requirement.strict is strict


a, b = parameter("a", "a length", "m", default=1.0), parameter("b", "another", "m", default=1.0)


@pytest.mark.parametrize(
    ("relation", "greater", "lesser", "text"),
    [
        (a > 2 * b, 1.0, 4.0, "a = 1 m, must be greater than 2*b = 4: why"),
        (2 * b < a, 1.0, 4.0, "a = 1 m, must be greater than 2*b = 4: why"),
        (a <= 3, 3.0, 4.0, "a = 4 m, must be at most 3: why"),
        (a < sympy.pi / 2, 1.570796327, 1.5708, "a = 1.5708 m, must be less than pi/2 = 1.5707963: why"),
        (m * b**2 + a >= b * m, 0.5, 1.5, "a + b**2*m = 0.5 m, must be at least b*m = 1.5: why"),
        (b * m <= m * b**2 + a, 0.5, 1.5, "a + b**2*m = 0.5 m, must be at least b*m = 1.5: why"),
        (x * m > 0, -0.5, 0.0, "x*m = -0.5, must be greater than 0: why"),
        (a > b, 1.0, 1.0, "a = 1 m, must be greater than b = 1: why"),
        (a > sum(sympy.Symbol(f"s{i}") ** 2 for i in range(50)), 1.0, 2.5, "a = 1 m, must be greater than 2.5: why"),
    ],
)
def test_a_refusal_has_the_values_of_both_sides(relation: Any, greater: float, lesser: float, text: str) -> None:
    assert condition(relation, "why").requirement.refusal(greater, lesser) == text


def test_losses_that_give_energy_are_taken_with_a_note() -> None:
    (note,) = derive(particle(dissipation=-m * x.rate**2 * (1 - x**2))).model.notes
    assert "the dissipation gives energy at some states (" in note
    zero_at_rest = sympy.expand((1 + x**2) * (sympy.sqrt(x.rate**2 + m**2) - m))
    assert derive(particle(dissipation=zero_at_rest)).model.notes == ()


def test_a_damper_on_a_belt_or_in_a_flow_resists_the_relative_rate() -> None:
    belt, flow = m * (x.rate - sympy.cos(time)) ** 2 / 2, m * (y.rate + x) ** 2
    drift = derive(particle(dissipation=belt + flow)).h_r
    assert (drift - sympy.Matrix([m * (v - sympy.cos(time)), 2 * m * (w + x)])).expand() == sympy.zeros(2, 1)
