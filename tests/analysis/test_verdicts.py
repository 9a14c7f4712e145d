"""Verdicts of `check` on machines of the literature, each against a simulation of equations written by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

import servonode
from tests.helpers import verdict_machines, verdict_sheet
from tests.helpers.verdict_table import CASES, LQR, Case, by_hand, judged_by_hand

PAGE = Path(__file__).parent / "verdicts.md"
MACHINES = ("crane", "segway", "furuta", "pendubot", "acrobot", "ball_and_beam", "tora", "quadrotor")
MACHINES += ("pendulum", "pivot", "hoist", "elastic_arm", "pvtol")


def test_there_are_enough_cases_and_half_of_them_are_refused() -> None:
    refused = sum(case.verdict == "no" for case in CASES)
    assert len(CASES) >= 24
    assert abs(2 * refused - len(CASES)) <= 2


def test_the_page_lists_each_case_with_its_verdict() -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:4]] for line in PAGE.read_text("utf-8").splitlines() if "**" in line
    ]
    assert [(row[0], row[2]) for row in rows if len(row) == 3] == [(case.name, f"**{case.verdict}**") for case in CASES]


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_the_machines_are_those_of_the_equations_by_hand(name: str, rng: np.random.Generator) -> None:
    machine = servonode.load(
        {"run": {"duration": 1.0}, "plant": {"machine": getattr(verdict_machines, name)}}
    ).closed_loop.machine
    n, n_u = len(machine.description.coordinates), machine.n_inputs
    for _ in range(5):
        q, v, u = rng.normal(size=n), rng.normal(size=n), rng.normal(size=n_u)
        derived = machine.derivatives(0.0, np.concatenate([q, v, [0.0]]), u)[n : 2 * n]
        assert_allclose(derived, getattr(verdict_sheet, name)(q, v, u), rtol=1e-11, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict_is_that_of_the_simulation_by_hand(case: Case) -> None:
    missed, left = by_hand(case)
    assert judged_by_hand(missed, left) == case.verdict, (missed, left)
    report = servonode.check(case.launch)
    said = "; ".join(f"{each.subject}: {each.text}" for each in report.findings)
    assert report.verdict == case.verdict, said
    assert case.reason in said
    if case.rate is not None:
        assert report.numbers["zero_dynamics"]["rate"] == pytest.approx(case.rate, rel=1e-6)


def about(machine: Any, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A and B of a machine with one input, by hand, at a state of rest; differences of second order."""
    h, n = 1e-5, len(at) // 2

    def rates(x: np.ndarray, u: float) -> np.ndarray:
        return np.concatenate([x[n:], machine(x[:n], x[n:], [u])])

    A = np.array([(rates(at + h * e, 0.0) - rates(at - h * e, 0.0)) / (2 * h) for e in np.eye(len(at))]).T
    return A, ((rates(at, h) - rates(at, -h)) / (2 * h))[:, None]


def checked(name: str) -> Any:
    (case,) = [each for each in CASES if each.name == name]
    return servonode.check(case.launch)


@pytest.mark.slow
def test_the_eigenvalues_of_feedback_that_a_user_states_are_those_by_hand() -> None:
    report = checked("cart_pole_balanced")
    A, B = about(verdict_sheet.crane, np.array([1.0, np.pi, 0.0, 0.0]))
    expected = np.linalg.eigvals(A - B @ np.array([LQR]))
    found = [complex(*each) for each in report.numbers["zero_dynamics"]["equilibria"][-1]["eigenvalues"]]
    assert_allclose(np.sort_complex(np.array(found)), np.sort_complex(expected), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "period"), [("crane_fed_back_slowly", 0.02), ("crane_fed_back_too_late", 0.1)])
@pytest.mark.parametrize("delay", [0, 2])
def test_the_eigenvalues_of_a_period_are_those_of_the_matrix_exponential(name: str, period: float, delay: int) -> None:
    (case,) = [each for each in CASES if each.name == name]
    launch = {**case.launch, "controller": {**case.launch["controller"], "delay": delay}}
    found = servonode.check(launch).numbers["sampled_radius"]
    A, B = about(verdict_sheet.crane, np.array([1.0, 0.0, 0.0, 0.0]))
    whole = expm(np.block([[A, B], [np.zeros((1, 5))]]) * period)
    late = np.zeros((4 + delay, 4 + delay))  # the inputs that wait, the oldest first
    K = np.array([[100.0, 0.0, 60.0, 0.0]])
    late[:4, :4] = whole[:4, :4] - (whole[:4, 4:] @ K if delay == 0 else 0.0)
    if delay:
        late[:4, 4:5] = whole[:4, 4:]
        late[4:-1, 5:] = np.eye(delay - 1)
        late[-1:, :4] = -K
    assert found == pytest.approx(np.abs(np.linalg.eigvals(late)).max(), rel=1e-5)


@pytest.mark.slow
def test_nothing_is_fed_back_is_said_only_where_it_is_true() -> None:
    stated = {"run": {"duration": 5.0}, "plant": {"machine": verdict_machines.crane}}
    shaken = servonode.check({**stated, "controller": {"program": verdict_machines.shake}})
    assert "nothing is fed back" in " ".join(each.text for each in shaken.findings)
    assert "closed loop" not in {each.subject for each in shaken.findings}
    (judged,) = [each for each in shaken.findings if each.subject == "open loop"]
    assert judged.level != "refuse"  # there is no goal that it could miss
    fed = checked("crane_damped")
    said = " ".join(each.text for each in fed.findings)
    assert "the state is fed back" in said
    assert "nothing is fed back" not in said
