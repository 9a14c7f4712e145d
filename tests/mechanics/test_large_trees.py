"""Large trees are computed by loops over bodies, with the numbers of the written-out equations."""

from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.definitions import cache
from servonode.mechanics import (
    Model,
    ball,
    coordinate,
    frame,
    hinge,
    input_,
    link,
    parameter,
    slide,
    tree,
    trees,
    vector,
    velocity,
)
from servonode.mechanics.derivation import Derivation
from servonode.mechanics.derive import derive
from servonode.mechanics.description import MachineDescription
from servonode.mechanics.machine import LATER, Machine
from servonode.mechanics.machine_source import source_and_description
from servonode.mechanics.straight_line import diff, ordered

INERTIA = [[0.05, 0.004, -0.003], [0.004, 0.06, 0.002], [-0.003, 0.002, 0.04]]
TILTED = [[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]]
M1, L1 = parameter("m", "mass", "kg", default=1.3), parameter("l", "length", "m", default=0.7)
SPIN = vector(velocity, "w", "spin", "rad/s")


def branched(turning: bool) -> Model:
    """Two arms on a carriage, each with a link that is fixed to it; at the end of one a ball."""
    q = [coordinate(f"q{i}", f"joint {i}", "rad") for i in range(6)]
    u = [input_(f"u{i}", f"torque {i}", "N m") for i in range(6)]
    orientation = vector(coordinate, "e", "orientation", start=(1, 0, 0, 0))
    links = [
        link("carriage", joints=[slide(q[0], (1, 0, 0), armature=0.1), hinge(q[1])], mass=2, centre=(0, 0.1, 0.2)),
        link("left", "carriage", position=(0, 0.3, L1), rotation=TILTED, joints=[hinge(q[2], (1, 2, 0), armature=0.02)],
             mass=M1, centre=(0.1, 0, -L1 / 2), inertia=INERTIA),
        link("hand", "left", position=(0, 0, -0.4), rotation=TILTED, mass=0.2, centre=(0, 0.02, 0.1), inertia=INERTIA),
        link("right", "carriage", position=(0, -0.3, L1), joints=[hinge(q[3], (0, 1, 0))], mass=M1, inertia=INERTIA),
        link("fore", "right", position=(0.5, 0, 0), joints=[hinge(q[4], (0, 1, 1)), slide(q[5])], mass=1,
             centre=(0.2, 0, 0)),
        *([link("eye", "left", position=(0.1, 0, 0.1), joints=[ball(orientation, SPIN, armature=0.01)], mass=0.3,
                centre=(0.1, 0.05, 0), inertia=INERTIA)] if turning else []),
        link("post", position=(1, 0, 0), mass=3, centre=(0, 0, 0.5)),
    ]  # fmt: skip
    return Model(
        name="branched", description="arms", parameters=(M1, L1),
        tree=tree(links, (0.3, 0, -9.7), frames=[frame("tool", "hand", (0.1, 0.2, 0.3), TILTED)]),
        inputs=dict(zip(u, (each.rate for each in q), strict=True)),
        dissipation=0.2 * q[2].rate ** 2, potential=3 * (q[4] - 0.3) ** 2,
    )  # fmt: skip


@pytest.fixture
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Machine, Machine]:
    """A machine as written out, and by loops."""
    found = []
    for least in (100, 1):
        monkeypatch.setattr(trees, "LEAST", least)
        found.append(compiled(branched(request.param)))
    return found[0], found[1]


def compiled(model: Model) -> Machine:
    """The machine of a model, by its text."""
    source, description = source_and_description(Derivation(model))
    kernel: Any = cache.load(cache.key_of("large tree", source), lambda: (source, description), later=LATER)[0]
    return Machine(msgspec.json.decode(description, type=MachineDescription), kernel, {})


def states(machine: Machine, n: int = 5) -> list[Any]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n):
        x = rng.uniform(-1, 1, machine.n_state + 1)
        e = [i for i, name in enumerate(machine.description.state_names) if name.startswith("e_")]
        x[e] /= np.linalg.norm(x[e]) if e else 1.0
        found.append((x, rng.normal(size=machine.n_inputs)))
    return found


@pytest.mark.parametrize("both", [False, True], indirect=True)
def test_loops_have_the_numbers_of_what_is_written_out(both: tuple[Machine, Machine]) -> None:
    written, looped = both
    for x, u in states(written):
        for each in ("energies", "poses", "constraint_residual", "position_residual"):
            assert_allclose(getattr(looped, each)(0.0, x), getattr(written, each)(0.0, x), rtol=1e-12, atol=1e-12)
        wanted = written.derivatives(0.0, x, u)
        assert_allclose(looped.derivatives(0.0, x, u), wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize("both", [False], indirect=True)
def test_the_full_form_is_that_of_what_is_written_out(both: tuple[Machine, Machine]) -> None:
    written, looped = both
    for x, u in states(written):
        for a, b in zip(written.full(0.0, x, u), looped.full(0.0, x, u), strict=True):
            assert_allclose(b, a, rtol=1e-11, atol=1e-11)
        M, N = written.matrices(0.0, x), looped.matrices(0.0, x)
        for name in ("M", "h", "B"):
            assert_allclose(getattr(N, name), getattr(M, name), rtol=1e-12, atol=1e-12)


def test_trees_that_differ_in_a_place_alone_have_entries_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "LEAST", 1)
    q, p = (coordinate(name, f"joint {name}", "rad") for name in "qp")
    first = link("first", joints=[hinge(q)], mass=M1)
    found = [
        tree([first, link("second", "first", position=(far, 0, 0), joints=[hinge(p)], mass=M1, centre=(1, 0, 0))])
        for far in (1, 2)
    ]
    one, other = (each.data.entries("tree_mass") for each in found if each.data)
    assert one[0, 0] != other[0, 0]


def test_an_entry_has_a_definition_where_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    written = derive(branched(turning=True))
    monkeypatch.setattr(trees, "LEAST", 1)
    looped = derive(branched(turning=True))
    M, N = looped.M_r, written.M_r
    n = M.rows
    assert [ordered([M[i, k]], written_out=False) != [] for i in range(n) for k in range(n)].count(True) > n
    q = next(each for each in looped.model.coordinates if each.name == "q2")
    assert diff(M[0, 2], q) == diff(N[0, 2], q) != 0
