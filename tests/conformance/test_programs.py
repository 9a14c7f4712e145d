"""What every program of PROGRAMS must be, with every choice of its options, at random admissible moments.

Parameters, gains, goals and states are random. Limits on demands and inputs are far away but where they are tested.
"""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.closed_loop.launch_file import read_launch
from servonode.controllers import PROGRAMS, ProgramEntry
from servonode.errors import ModelError
from tests.conformance.cases import (
    PROGRAM_CASES,
    REFUSED,
    REFUSED_CASES,
    SINGULAR_CASES,
    Array,
    Moment,
    ProgramCase,
    accelerations,
    input_map,
    machine_cases,
    mass_matrix,
)
from tests.helpers.wings import launches

DOCS = Path(__file__).parents[2] / "docs"
every_program = pytest.mark.parametrize("case", PROGRAM_CASES)
every_entry = pytest.mark.parametrize("entry", PROGRAMS, ids=lambda each: f"{each.machine or 'any'}-{each.name}")


def near(found: Array, expected: Array, scale: Array | float, tolerance: float) -> None:
    """Within the tolerance of the size of what makes them up."""
    assert_allclose(found, expected, rtol=0, atol=tolerance * (1.0 + float(np.max(np.abs(scale), initial=0.0))))


def rates(at: Moment, u: Array) -> Array:
    return at.machine.derivatives(at.t, at.x, u)


def stated(at: Moment) -> Array:
    """The residuals of the program's own expressions."""
    return np.array([at.value(each.expression) for each in at.expressions.program.residuals])


def wanted(at: Moment) -> Array:
    """-K1 f' - K0 f - damping, of the programs' own expressions and the kernel's f'."""
    damping = np.array([at.value(each.damping) for each in at.expressions.program.residuals])
    result: Array = -at.law.K[1] @ at.terms["f_dot"] - at.law.K[0] @ stated(at) - damping
    return result


def top(at: Moment, u: Array) -> Array:
    """f^(r) under the inputs u, by differences along the motion."""
    return at.along(rates(at, u), at.next_to_top)


def served(at: Moment) -> bool:
    """Whether the law has terms: a program that states its inputs has none."""
    return not at.law.description.explicit


# residuals and their derivatives


@every_program
def test_the_law_answers_finite_inputs_and_the_stated_residuals(case: ProgramCase) -> None:
    description = case.loaded.law.description
    assert description.name == case.program
    for at in case.loaded.moments:
        answer = at.law.evaluate(at.t, at.x, at.y)
        assert answer.status == 0
        assert answer.inputs.shape == (at.machine.n_inputs,)
        assert np.isfinite(answer.out).all()
        assert np.all((answer.scales > 0) & (answer.scales <= 1))
        f = stated(at)
        assert answer.residuals.shape == f.shape == (len(description.residuals),)
        near(answer.residuals, f, f, 1e-12)
        if served(at):
            near(at.terms["f"], f, f, 1e-12)


@every_program
def test_residual_rate_is_the_derivative_along_the_motion(case: ProgramCase) -> None:
    for at in filter(served, case.loaded.moments):
        found = at.along(rates(at, at.u), at.residuals)
        terms = at.terms
        finite = np.array(at.law.description.relative_degrees) == 2
        near(found[finite], terms["f_dot"][finite], found, 1e-9)
        assert_allclose(terms["f_dot"][~finite], 0.0)
        answer = at.law.evaluate(at.t, at.x, at.y)
        near(answer.rates, terms["f_dot"], found, 1e-12)


@every_program
def test_the_jacobian_is_the_derivative_by_the_velocities(case: ProgramCase) -> None:
    for at in filter(served, case.loaded.moments):
        J = at.terms["J"]
        for k, name in enumerate(at.machine.description.velocities):
            unit = np.zeros(len(at.x))
            unit[at.machine.description.state_names.index(name)] = 1.0
            found = [at.next_to_top(at.t, at.x + step * unit, at.s) for step in (1e-4, -1e-4, 5e-5, -5e-5)]
            central = (4 * (found[2] - found[3]) / 1e-4 - (found[0] - found[1]) / 2e-4) / 3
            near(central, J[:, k], np.array([J[:, k], *found]), 1e-9)


@every_program
def test_terms_of_the_top_derivative_are_its_differences(
    case: ProgramCase,
) -> None:
    for at in filter(served, case.loaded.moments):
        terms, v_dot, here = at.terms, accelerations(at.machine, rates(at, at.u)), top(at, at.u)
        made, W = terms["J"] * v_dot, terms["W"]
        scale = np.sum(np.abs(made)) + np.max(np.abs(terms["delta"]), initial=0.0)
        near(terms["J"] @ v_dot + terms["delta"], here, scale, 1e-8)
        near(W @ at.u + terms["b"], terms["J"] @ v_dot + terms["delta"], scale, 1e-11)
        for k in range(at.machine.n_inputs):
            moved = at.u.copy()
            moved[k] += 1.0 / max(float(np.max(np.abs(W[:, k]))), 1e-6)
            there = top(at, moved)
            near(there - here, W[:, k] * (moved[k] - at.u[k]), np.abs(here) + np.abs(there), 1e-7)


# the law


@every_program
def test_the_residuals_obey_their_equation_under_the_laws_inputs(case: ProgramCase) -> None:
    # f^(r) = -K1 f' - K0 f - damping, both sides found without the law's own terms
    for at in filter(served, case.loaded.moments):
        scales = at.law.evaluate(at.t, at.x, at.y).scales[
            [each.kind != "expressions" for each in at.expressions.program.limits]
        ]
        assert_allclose(scales, 1.0, rtol=0, atol=0)
        terms = at.terms
        accelerated = accelerations(at.machine, rates(at, at.u))
        scale = np.abs(terms["J"]) @ np.abs(accelerated) + np.abs(terms["delta"])
        near(top(at, at.u), wanted(at), scale, 1e-8)


@every_program
def test_the_inputs_are_given_or_completed_as_stated(case: ProgramCase) -> None:
    for at in case.loaded.moments:
        given = {each.name: each for each in at.expressions.program.inputs}
        assert bool(given) == at.law.description.explicit
        for u, name in zip(at.u, at.machine.description.input_names, strict=True):
            if given:
                near(np.array([u]), np.array([at.value(at.expressions.program.inputs[given[name]])]), at.u, 1e-9)
    for at in filter(served, case.loaded.moments):
        terms, program = at.terms, at.expressions.program
        for relation in program.relations:
            near(np.array([at.value(relation)]), np.zeros(1), at.u, 1e-9)
        if program.least_norm:  # nothing of the inputs is idle
            idle = np.eye(len(at.u)) - np.linalg.pinv(terms["W"]) @ terms["W"]
            near(idle @ at.u, np.zeros(len(at.u)), at.u, 1e-9)
        if program.ideal:  # B_r tau lies in the rows of J, by a mass matrix and an input map that the law does not see
            force = input_map(at.machine, at.t, at.x) @ at.u
            multipliers = np.linalg.lstsq(terms["J"].T, force, rcond=None)[0]
            near(terms["J"].T @ multipliers, force, force, 1e-8)
            response = np.linalg.solve(mass_matrix(at.machine, at.t, at.x), force)
            near(terms["J"] @ response, terms["W"] @ at.u, terms["W"] * at.u, 1e-8)
        rows = len(program.residuals) + len(program.relations)
        assert rows == len(at.u) or program.least_norm or program.ideal


@every_program
def test_limit_scales_its_vector_and_keeps_the_direction(case: ProgramCase) -> None:
    for at in case.loaded.moments:
        for i, limit in enumerate(at.expressions.program.limits):
            if limit.kind == "expressions":
                continue
            name, value = next((n, at.law.parameters[n]) for n in at.expressions.raised()
                               if n in {each.name for each in limit.at_most.free_symbols})  # fmt: skip
            free = limited_vector(at, limit, at.u)
            tight, answer = at, at.law.evaluate(at.t, at.x, at.y)
            while answer.scales[i] == 1.0:  # until it acts
                value /= 3.0
                assert value > 1e-9, "the limit never acts"
                tight = at.with_settings({name: value})
                answer = tight.law.evaluate(at.t, at.x, at.y)
                assert answer.status == 0
            vector = limited_vector(at, limit, answer.inputs)
            near(vector, answer.scales[i] * free, free, 1e-9)
            bound = tight.value(limit.at_most)
            assert np.linalg.norm(vector) == pytest.approx(bound, rel=1e-7)


def limited_vector(at: Moment, limit: object, u: Array) -> Array:
    """What a limit bounds, under inputs u: J v' of its residuals, or the inputs themselves."""
    program = at.expressions.program
    if limit.kind == "inputs":  # type: ignore[attr-defined]
        return u[[at.machine.description.input_names.index(each.name) for each in limit.of]].copy()  # type: ignore[attr-defined]
    rows = [[each.quantity.name for each in program.residuals].index(each.quantity.name) for each in limit.of]  # type: ignore[attr-defined]
    J = at.terms["J"][rows]
    result: Array = J @ accelerations(at.machine, rates(at, u))
    return result


# what is refused


@pytest.mark.parametrize("case", SINGULAR_CASES)
def test_what_derives_and_is_meant_to_be_refused_is_singular(case: ProgramCase) -> None:
    law = case.law()
    rng = case.rng()  # it derives, and its W is singular wherever the machine starts
    x = case.plant.machine.state({})
    y = np.zeros(law.goal_layout.size)
    law = law.started(0.0, x, y, [])
    law.K[0] = rng.uniform(1.0, 2.0, (law.n_s, law.n_s))
    assert law.evaluate(0.0, x, y).status != 0


@pytest.mark.parametrize("case", REFUSED_CASES)
def test_what_is_meant_to_be_refused_is_refused_in_words(case: ProgramCase) -> None:
    with pytest.raises(ModelError, match=r"\w+( \S+){8,}"):  # what is wrong and how to fix it
        case.law()


def cases_of(entry: ProgramEntry) -> list[ProgramCase]:
    """The cases of a program that are not refused."""
    cases = [param.values[0] for param in PROGRAM_CASES]
    return [each for each in cases if each.program == entry.name and entry.machine in (None, each.plant.name)]


@every_entry
def test_every_choice_of_an_option_can_be_derived_with_some_others(entry: ProgramEntry) -> None:
    derived = {pair for case in cases_of(entry) for pair in case.options}
    refused = {pair for each in REFUSED if len(each.options) == 1 for pair in each.options.items()}
    for option, choices in entry.options.items():
        assert {(option, choice) for choice in choices} - derived <= refused


# what comes with a program


@cache
def tasks() -> list[tuple[str | None, str]]:
    """The program and the machine of every packaged launch file."""
    files = [read_launch(each) for each in launches()]
    return [(each.controller.program if each.controller else None, each.plant.machine) for each in files]


@every_entry
def test_a_launch_file_uses_the_program_and_its_page_names_all_that_can_be_set(entry: ProgramEntry) -> None:
    assert [m for program, m in tasks() if program == entry.name and entry.machine in (None, m)]
    pages = [DOCS / "systems" / f"{entry.machine}.md"] if entry.machine else sorted(DOCS.rglob("*.md"))
    text = "\n".join(page.read_text() for page in pages)
    known = {word for quoted in re.findall(r"`+([^`]+)`+", text) for word in re.findall(r"\w+", quoted, re.ASCII)}
    assert ({entry.name} | named_options(entry) | settable(entry)) - known == set()


def named_options(entry: ProgramEntry) -> set[str]:
    """Options and choices that a user writes, not those that another setting implies, nor numbers."""
    implied = {option for option, _ in entry.implied.values()}
    stated = {name: choices for name, choices in entry.options.items() if name not in implied}
    return {word for name, choices in stated.items() for word in (name, *choices) if word.isidentifier()}


def settable(entry: ProgramEntry) -> set[str]:
    """Parameters, signals, targets, residuals and limits over all choices of a program's options."""
    found: set[str] = set()
    for case in cases_of(entry) if entry.machine else ():
        if case.plant == machine_cases(case.plant.name)[0]:
            found |= named(case)
    return found


def named(case: ProgramCase) -> set[str]:
    """What a user may set or see of a program."""
    program = case.source.build(case.plant.source.build(), dict(case.options))
    own = {each.name for each in (*program.parameters, *program.signals, *program.targets)}
    own |= {each.quantity.name for each in program.residuals} | {each.quantity.name for each in program.limits}
    return {re.sub(r"_\d$", "", name) for name in own}


@every_entry
def test_program_quantities_have_description_and_unit(entry: ProgramEntry) -> None:
    case = cases_of(entry)[0]
    description = case.loaded.law.description
    own = (*description.residuals, *description.parameters, *description.signals, *description.states)
    for each in (*own, *description.limits):
        assert each.name.isascii(), each
        assert each.description.strip(), each
        assert each.unit.strip(), each
    assert description.description.strip()
    texts = (*description.guards, *description.requirements, *description.warnings)
    assert all(len(each.text.split()) > 5 for each in texts)
    assert all(value >= 0 for value in (each.default or 0.0 for each in description.residuals))
