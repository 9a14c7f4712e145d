"""Realisability: responses by two formulas, ranks and conditions, and what follows from them, with the remedy."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sympy import cos, sin

from servonode.controllers import Program, ServoLaw, residual, signal, target
from servonode.controllers.engine.realize import (
    Realisability,
    Survey,
    random_states,
    realisability,
    responses,
    survey,
    unsurveyed,
)
from servonode.mechanics import Model, coordinate, input_
from servonode.mechanics.machine import Machine
from tests.helpers.packaged import model_factory

HERE = Path(__file__)


def axle_centre(machine: Model) -> Program:
    x, y = target("x", "", "m"), target("y", "", "m")
    rows = residual("axle_x", machine["X"] - x, "", "m"), residual("axle_y", machine["Y"] - y, "", "m")
    return Program("axle_centre", "rank 1 everywhere", rows, targets=(x, y))


def equal_torques(machine: Model) -> Program:
    g = signal("g", "hitch program", "rad", default="0")
    rows = (residual("phi", machine["phi"] - g, "", "rad"),)
    relations = (machine["U1"] - machine["U2"],)
    return Program("equal_torques", "singular when straight", rows, signals=(g,), relations=relations)


def passive_row(machine: Model) -> Program:
    """The trailer axle must not move sideways, which its wheels see to already."""
    X, Y, psi, phi, b = (machine[name] for name in ("X", "Y", "psi", "phi", "b"))
    trailer = psi + phi
    sideways = -sin(trailer) * X.rate + cos(trailer) * Y.rate - b * (psi.rate + phi.rate)
    rows = residual("sideways", sideways, "", "m/s"), residual("speed", machine["V"], "", "m/s")
    return Program("passive_row", "asks for what a passive constraint fixes", rows)


def pole_angle(machine: Model) -> Program:
    return Program("pole_angle", "", (residual("angle", machine["theta"], "", "rad"),))


@pytest.fixture
def laws(trailer: Machine, small: ModuleType) -> Callable[[str], ServoLaw]:
    """'hitch_angle opposed', 'look_ahead', 'axle_centre', ..."""

    def law(name: str) -> ServoLaw:
        program, _, option = name.partition(" ")
        if program in ("hitch_angle", "look_ahead"):
            result = small.packaged_law(program, trailer, **({"completion": option} if option else {}))
        elif program == "pole_angle":
            result = small.law(program, small.cart_pole, pole_angle, small.machine(small.cart_pole), HERE)
        else:
            result = small.law(program, model_factory("diff_drive_trailer"), globals()[program], trailer, HERE)
        return result.started(0.0, result.machine.state({}), np.zeros(result.goal_layout.size), {})

    return law


def surveyed(law: ServoLaw, spread: float = 0.5, **start: float) -> Survey:
    """A survey of 50 states about a start, the goal at the origin."""
    rng = np.random.default_rng(3)
    states = random_states(law.machine.description, law.machine.state(start), rng, 50, spread)
    return survey(law, states, np.zeros(50), np.zeros((50, law.goal_layout.size)))


def judged(law: ServoLaw, **start: float) -> Realisability:
    d = law.description
    return realisability(surveyed(law, **start), law.n_s, law.machine.n_inputs, d.relations, d.completion)


def worst_phi(found: Survey) -> float:
    assert found.worst is not None
    return abs(float(found.worst.state[found.states.index("phi")]))


@pytest.fixture
def samples(trailer: Machine, sheet: ModuleType, rng: np.random.Generator) -> list[Any]:
    return [sheet.random_state(rng) for _ in range(20)]


def kinematics(machine: Machine, x: Any) -> Any:
    """G (n_q, n_v): the coordinates' rates at unit velocities."""
    names, d = machine.description.state_names, machine.description
    rows, columns = [names.index(q) for q in d.coordinates], [names.index(v) for v in d.velocities]
    result = []
    for column in columns:
        moving = x.copy()
        moving[columns] = 0.0
        moving[column] = 1.0
        result.append(machine.derivatives(0.0, moving, np.zeros(machine.n_inputs))[rows])
    return np.array(result).T


def response(machine: Machine, x: Any) -> Any:
    """R (n_v, n_tau)."""
    return responses(machine, np.zeros(1), x[None])[0]


def response_by_null_space(machine: Machine, x: Any) -> Any:
    """R (n_q, n_tau) in rates, Z (Z^T M Z)^-1 Z^T B, Z a basis of the kernel of A."""
    m = machine.matrices(0.0, x)
    Z = np.linalg.svd(m.A)[2][len(m.A) :].T if len(m.A) else np.eye(len(m.M))
    return Z @ np.linalg.solve(Z.T @ m.M @ Z, Z.T @ m.B)


def response_by_projector(machine: Machine, x: Any) -> Any:
    """R (n_q, n_tau) in rates, M^-1 (I - A^T C^-1 A M^-1) B, C = A M^-1 A^T."""
    m = machine.matrices(0.0, x)
    free, bound = (np.linalg.solve(m.M, each) for each in (m.B, m.A.T))
    return free - bound @ np.linalg.solve(m.A @ bound, m.A @ free)


def test_response_is_that_of_mass_matrix_and_constraints(
    trailer: Machine, small: ModuleType, samples: Any, rng: Any
) -> None:
    cart = small.machine(small.cart_pole)
    for machine, x in [*((trailer, x) for x in samples), (cart, rng.normal(size=5))]:
        expected = kinematics(machine, x) @ response(machine, x)
        for way in (response_by_null_space, response_by_projector):
            assert_allclose(way(machine, x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["hitch_angle speed", "hitch_angle opposed", "look_ahead"])
def test_W_of_the_law_is_J_times_the_response(laws: Any, samples: Any, name: str) -> None:
    law = laws(name)
    for x in samples:
        terms = law.terms(0.0, x, np.zeros(law.goal_layout.size))
        assert_allclose(terms["W"], terms["J"] @ response(law.machine, x), rtol=1e-12, atol=1e-12)


def test_one_solve_for_reactions_and_torques_agrees_with_the_law(
    trailer: Machine, small: ModuleType, samples: Any, rng: np.random.Generator
) -> None:
    law = small.packaged_law("rates", trailer)
    law.stabilise({"speed": 2.0, "yaw_rate": 1.5})
    b, l, r = 1.0, 0.2, 0.075  # noqa: E741
    for x in samples:
        y = rng.normal(size=law.goal_layout.size)
        answer = law.evaluate(0.0, x, y)
        matrices, terms = trailer.matrices(0.0, x), law.terms(0.0, x, y)
        psi, phi = x[2:4]
        # q' = G v by hand, v = (V, Omega)
        G = np.array(
            [[np.cos(psi), 0], [np.sin(psi), 0], [0, 1], [-np.sin(phi) / b, -1], [1 / r, -l / r], [1 / r, l / r]]
        )
        J = terms["J"] @ np.linalg.pinv(G)  # one of the rows on rates that act the same on admissible rates
        free = trailer.derivatives(0.0, x, np.zeros(2))
        drift_of_G = trailer.full(0.0, x, np.zeros(2))[0] - G @ free[4:6]
        wanted = -law.K[0] @ terms["f"] - law.K[1] @ terms["f_dot"]
        n, m = matrices.M.shape[0], matrices.A.shape[0]
        saddle = np.block(
            [
                [matrices.M, -matrices.A.T, -matrices.B],
                [matrices.A, np.zeros((m, m + 2))],
                [J, np.zeros((2, m + 2))],
            ]
        )
        right = np.concatenate([-matrices.h, matrices.gamma, wanted - terms["delta"] + J @ drift_of_G])
        solution = np.linalg.solve(saddle, right)
        assert_allclose(solution[n + m :], answer.inputs, rtol=0, atol=1e-10 * (1 + np.abs(answer.inputs).max()))
        _, reactions = trailer.full(0.0, x, answer.inputs)
        assert_allclose(solution[n : n + m], reactions, rtol=0, atol=1e-9 * (1 + np.abs(reactions).max()))


def test_random_states_stay_near_the_start_and_have_done_no_work(trailer: Machine, rng: Any) -> None:
    start = trailer.state({"phi": 0.3})
    states = random_states(trailer.description, start, rng, 40, 0.2)
    assert states.shape == (40, 9)
    assert np.abs(states - start).max() <= 0.2
    assert not states[:, 8].any()


def test_hitch_and_speed_are_determined_and_regular(laws: Any) -> None:
    law = laws("hitch_angle speed")
    for x in random_states(law.machine.description, law.machine.state({}), np.random.default_rng(1), 20, 2.0):
        J = law.terms(0.0, x, np.zeros(law.goal_layout.size))["J"]
        assert abs(np.linalg.det(J)) == pytest.approx(1.0, rel=1e-14)
    found = judged(law)
    assert (found.realisable, found.case, found.remedy) == (True, "determined", "")
    assert "phi, speed can be realised by U1 and U2 uniquely; condition at most" in found.text
    assert judged(laws("look_ahead"), V=0.3).case == "determined"


def test_units_of_a_residual_do_not_change_the_condition(laws: Any) -> None:
    """A row in mm instead of m: what `terms` gives is scaled by 1000."""
    law = laws("look_ahead")
    expected = surveyed(law).worst
    law.terms = lambda *at, terms=law.terms: {
        name: value * np.array([[1000.0], [1.0]]) if name in ("J", "W") else value for name, value in terms(*at).items()
    }
    found = surveyed(law).worst
    assert expected is not None
    assert found is not None
    assert found.condition == pytest.approx(expected.condition, rel=1e-12)


def test_axle_centre_is_reached_through_an_integrator(laws: Any) -> None:
    law = laws("axle_centre")
    assert law.description.relative_degrees == (3, 3)
    assert law.description.extension.steps == (
        "U1 and U2 reach axle_x and axle_y too early: U1 is demanded through 1 integrator",
    )
    found = surveyed(law)
    assert (found.highest_rank, found.lowest_rank) == (2, 1)
    assert found.worst is not None
    assert [found.states[i] for i in found.worst.decisive] == ["V"]


@pytest.mark.parametrize("name", ["hitch_angle yaw_rate", "equal_torques"])
def test_hitch_with_yaw_rate_is_singular_only_when_straight(laws: Any, name: str) -> None:
    found = surveyed(laws(name))
    assert worst_phi(found) < 1e-6
    assert (found.highest_rank, found.lowest_rank) == (2, 1)
    assert found.worst is not None
    assert [found.states[i] for i in found.worst.decisive] == ["phi"]
    assert judged(laws(name)).case == "singular"
    assert judged(laws(name), phi=0.9).realisable  # the survey keeps to 0.4 .. 1.4 rad


def test_a_singular_surface_is_named_with_its_state_and_remedy(laws: Any) -> None:
    found = judged(laws("hitch_angle yaw_rate"))
    assert not found.realisable
    assert "U1 and U2 lose control of phi and yaw_rate at some states: condition" in found.text
    assert "at t = 0 s, phi = " in found.text
    assert "psi" not in found.text
    assert "a residual for the speed" in found.remedy
    assert "control of phi and relation 1 at some states" in judged(laws("equal_torques")).text


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("opposed", "completed by 1 relation; what this leaves free is not controlled"),
        ("least_norm", "completed by the least norm"),
    ],
)
def test_relation_or_least_norm_completes_the_hitch(laws: Any, completion: str, text: str) -> None:
    found = judged(laws(f"hitch_angle {completion}"))
    assert (found.realisable, found.case) == (True, "completed")
    assert text in found.text


def test_too_few_or_too_many_residuals_are_named_with_the_remedy(laws: Any) -> None:
    found = realisability(surveyed(laws("hitch_angle least_norm")), 1, 2)
    assert (found.realisable, found.case) == (False, "incomplete")
    assert "1 servo-constraint (phi) for 2 inputs (U1, U2): 1 combination of the inputs left open" in found.text
    assert "another residual" in found.remedy
    assert "a relation between U1 and U2, or least_norm=True" in found.remedy
    names = replace(unsurveyed(laws("hitch_angle speed")), residuals=("phi", "speed", "yaw_rate"))
    found = realisability(names, 3, 2)
    assert (found.realisable, found.case) == (False, "overdetermined")
    assert "3 servo-constraints (phi, speed, yaw_rate) for 2 inputs (U1, U2): 1 too many" in found.text
    assert found.remedy == "leave out 1 of them"


def test_rows_that_no_input_reaches_are_named(laws: Any) -> None:
    law = laws("passive_row")
    assert surveyed(law).reach[0] == 0.0
    found = judged(law)
    assert (found.realisable, found.case) == (False, "singular")
    assert "residual sideways is fixed by the passive constraints" in found.text
    assert "leave sideways out" in found.remedy
    found = surveyed(laws("hitch_angle speed"))
    found = replace(found, reach=np.array([1e-12, found.reach[1]]))
    text = realisability(found, 2, 2)
    assert text.text == "no input (U1, U2) reaches derivative 2 of residual phi"
    assert "its relative degree is higher than 2" in text.remedy


def test_one_input_that_loses_its_only_residual_is_found(laws: Any) -> None:
    law = laws("pole_angle")
    assert judged(law).case == "determined"
    assert judged(law, theta=1.4).case == "singular"  # the cart cannot turn a pole that is level


def test_a_survey_beyond_the_guards_or_without_the_relations_is_refused(laws: Any) -> None:
    law = laws("hitch_angle speed")
    found = surveyed(law, V=10.0)
    assert found.outside > 10
    assert found.count + found.outside == 50
    assert found.worst is not None
    assert abs(found.worst.state[4]) < 10.0
    with pytest.raises(ValueError, match="none of 50 states is inside the program's domain; survey closer"):
        judged(law, V=20.0)
    law = laws("hitch_angle opposed")
    with pytest.raises(ValueError, match="the survey is not of a program with 2 relations"):
        realisability(surveyed(law), 1, 3, 2)


def test_where_the_inputs_do_no_work_no_residual_is_reached_and_nothing_is_divided_by_zero(small: ModuleType) -> None:
    def model() -> Model:
        x, F = coordinate("x", "", "m"), input_("F", "", "N")
        return Model("lever", "", x.rate**2 / 2, coordinates=(x,), inputs={F: x * x.rate})

    def place(machine: Model) -> Program:
        return Program("place", "", (residual("place", machine["x"], "", "m"),))

    law = small.law("place", model, place, small.machine(model), HERE)
    assert surveyed(law, 0.0).reach == [0.0]
