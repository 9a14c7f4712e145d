"""Machines made at random, with springs, dampers, inputs and rolling, have the identities of packaged ones."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import cos, sin

from servonode.definitions import cache as kernels
from servonode.mechanics import (
    Model,
    ball,
    constraint,
    coordinate,
    hinge,
    input_,
    link,
    parameter,
    slide,
    tree,
    velocity,
)
from servonode.mechanics import vector as of_entries
from servonode.mechanics.machine import Machine, load_machine
from tests.conformance import test_machines as identities
from tests.conformance.cases import MachineCase

SEEDS = [pytest.param(seed, marks=() if seed < 2 else pytest.mark.slow) for seed in range(12)]
HELD = [
    identities.test_the_defaults_are_valid_and_the_default_start_is_no_fault,
    identities.test_arrays_are_finite_and_constraints_held,
    identities.test_the_energy_changes_by_the_power_of_inputs_and_losses,
    identities.test_mass_matrix_is_positive_definite_and_maps_unit_inputs,
    identities.test_without_losses_the_motion_runs_backwards_as_well,
    identities.test_what_is_held_stays_held_over_steps,
]
OF_FULL_FORMS = [
    identities.test_the_minimal_form_agrees_with_the_full_form,
    identities.test_the_full_form_is_that_of_lagrange_found_from_the_energies,
]


def random_model(seed: int) -> Model:
    """One to four links by joints of all kinds; every third rolls: one rate is another's, by a factor of the place."""
    rng = np.random.default_rng(seed)
    n, rolls = 1 + seed % 4, seed % 3 == 1
    links, moving = list[Any](), list[Any]()
    for i in range(n):
        joints = []
        if i == 0 and seed % 5 == 0 and not rolls:  # rolling is stated in rates of coordinates
            start = of_entries(coordinate, "n", "attitude", start=(1, 0, 0, 0))
            joints.append(ball(start, of_entries(velocity, "w", "spin", "rad/s")))
        for k in range(2 if rolls and i == 0 else 1 if not joints else 0):
            q = coordinate(f"q{i}{k}", "place or angle", start=float(rng.uniform(-0.5, 0.5)))
            kind, axis = (hinge, slide)[int(rng.integers(2))], rng.normal(size=3).tolist()
            joints.append(kind(q, axis, float(rng.uniform(0.0, 0.1))))
            moving.append(q)
        links.append(
            link(f"b{i}", f"b{int(rng.integers(i))}" if i else "", position=rng.uniform(-1, 1, 3).tolist(),
                 joints=joints, mass=float(rng.uniform(0.5, 2.0)), centre=rng.uniform(-0.3, 0.3, 3).tolist(),
                 inertia=np.diag(rng.uniform(0.1, 0.19, 3)).tolist())
        )  # fmt: skip
    k = parameter("k", "stiffness", default=3.0, at_least=0)
    c = parameter("c", "damping", default=0.0, at_least=0)
    held: dict[str, Any] = {}
    if rolls:
        one, other = moving[:2]
        row = other.rate - one.rate * (1 + 0.5 * cos(one) * sin(other))
        held = {"constraints": (constraint("R", "force", row),), "independent": (one, *moving[2:])}
    return Model(
        name=f"random{seed}",
        description="a machine made at random",
        parameters=(k, c),
        tree=tree(links),
        potential=k * sum((q**2 + 0.3 * sin(q) for q in moving), start=0),
        dissipation=c * sum((q.rate**2 for q in moving), start=0) / 2,
        inputs={input_(f"u{i}", "force or torque"): q.rate for i, q in enumerate(moving)},
        **held,
    )


@cache
def compiled(seed: int) -> Machine:
    key = kernels.key_of(
        "test", "random", str(seed), kernels.code_digest("mechanics.machine_source"), Path(__file__).read_text()
    )
    return load_machine(key, lambda: random_model(seed), {})


class RandomCase(MachineCase):
    """A machine of random_model in the place of one of PLANTS."""

    @property
    def machine(self) -> Machine:
        return compiled(int(self.name.removeprefix("random")))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_machine_has_the_identities_of_the_packaged_ones(seed: int) -> None:
    case = RandomCase(f"random{seed}", ())
    for holds in HELD + (OF_FULL_FORMS if case.machine.description.has_full_form else []):
        holds(case)
    if seed % 4 < 2:
        identities.test_every_integrator_has_its_order(case, "rk4")
