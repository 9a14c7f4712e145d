"""Motors at sites, on tendons and free joints, and tendons with forces of their own: accelerations as in MuJoCo."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.arrays import Array
from servonode.mechanics.dimensions import machine_mismatches
from servonode.mechanics.equilibrium import closed
from servonode.wings.robots.joint_states import JointStates
from servonode.wings.robots.model import model
from servonode.wings.robots.read import read
from tests.helpers.extras import needs_mujoco
from tests.helpers.mjcf import (
    body,
    hard_accelerations,
    hinge,
    mjcf,
    motors,
    own_accelerations,
    written,
)
from tests.helpers.robots import machine_of, mujoco_model

needs_mujoco()
SITES = '<site name="s1" pos=".1 .2 .3" euler="20 30 40"/><site name="s2" pos="-.1 .2 .3"/>'
FREE = body("q", '<freejoint name="root"/>', SITES)
TREE = body(
    "a",
    hinge("a"),
    '<site name="s" pos=".1 .1 0"/>'
    + body(
        "b",
        hinge("b", axis="1 0 0"),
        '<site name="r" euler="0 20 0"/>' + body("c", hinge("c"), '<site name="e" pos=".1 .2 .3"/>'),
        at="0.2 0 0",
    )
    + body("d", hinge("d", axis="0 0 1"), '<site name="h" pos=".1 .1 0" euler="10 20 30"/>'),
)
TREE += '<site name="far" pos="5 5 5"/>'  # fmt: skip
LOSSY = 'stiffness="10 2 3" damping="1 2 3" frictionloss="1"'
MIXED = '<joint joint="a" coef="2"/><joint joint="k" coef="1"/>'
JOINTS = '<joint joint="a" coef="2"/><joint joint="c" coef="-.5"/>'
PATH = '<site site="far"/><site site="s"/><site site="r"/>'
PATH += '<pulley divisor="2"/><site site="e"/><site site="h"/>'
END = '<site site="far"/><site site="{}"/>'
TRUNK = '<site site="far"/><site site="s"/><site site="e"/>'


def tendon(name: str, path: str, more: str = "") -> str:
    kind = "fixed" if "<joint" in path else "spatial"
    return f'<{kind} name="{name}" {more}>{path}</{kind}>'


def tendons(*texts: str) -> str:
    return f"<tendon>{''.join(texts)}</tendon>"


TREES = {
    "thrusts and wrenches at sites and on a free joint": mjcf(FREE, motors(
        'name="m" site="s1" gear="0 0 1 0 0 .02"', 'site="s2" gear=".1 .2 .3 .4 .5 .6"',
        'joint="root" gear="1 2 3 4 5 6"', 'jointinparent="root" gear="1 2 3 4 5 6"')),
    "torques on a ball": mjcf(
        body("o", hinge("a", axis="1 0 0"), body("r", '<joint name="b" type="ball" damping="0 2 3"/>')),
        motors('joint="b" gear="1 2 3"', 'jointinparent="b" gear="1 2 3"')),
    "sites beside other sites, a crank": mjcf(TREE, motors(
        *(f'site="{one}" refsite="{other}" gear="1 2 3 4 5 6"'
          for one, other in ("eh", "er", "sh", ("e", "far"), ("far", "e"), "rs")),
        'cranksite="e" slidersite="h" cranklength="1.3" gear="2"')),
    "a sum of joints": mjcf(
        TREE, tendons(tendon("t", JOINTS, f'{LOSSY} armature=".1" springlength=".1"'))
        + motors('tendon="t" gear="2" damping=".5 .2 .1" armature=".03"', 'tendon="t"')),
    "a sum of an angle and a travel": mjcf(
        body("a", hinge("a"), body("k", '<joint name="k" type="slide"/>')),
        tendons(tendon("t", MIXED, f'{LOSSY} armature=".1"')) + motors('tendon="t" gear="2"')),
    "a path over pulleys": mjcf(
        TREE, tendons(tendon("t", PATH, f'{LOSSY} springlength="1 6"'), tendon("a", TRUNK, 'armature=".2"'))
        + motors('tendon="t" gear="2" damping=".5 .2 .1"', 'joint="a"')),
    "a path to what floats": mjcf(
        FREE + '<site name="far" pos="5 5 5"/>',
        tendons(tendon("t", END.format("s1"), f'{LOSSY} armature=".1"')) + motors('tendon="t"')),
    "losses and springs that are polynomials": mjcf(
        body("a", hinge("a", 'damping="1 2 3" stiffness="4 5 6" springref="10"')),
        motors('joint="a" damping=".1 .2 .3" armature=".1"')),
    "what flags switch off": mjcf(
        TREE, tendons(tendon("t", JOINTS, f'{LOSSY} range="0 1"')) + motors('tendon="t" damping=".5"'),
        '<option><flag spring="disable" damper="disable" limit="disable"/></option>'),
}  # fmt: skip
UPON = '<equality><tendon tendon1="t" tendon2="u" polycoef="0 1 .2 0 0"/></equality>'
LOOPS = {
    "a tendon that follows another": mjcf(
        TREE, tendons(tendon("t", JOINTS), tendon("u", '<joint joint="d" coef="1"/>')) + UPON + motors('joint="a"')),
    "a path that follows another": mjcf(
        TREE, tendons(tendon("t", END.format("s")), tendon("u", END.format("h"))) + UPON + motors('tendon="t"')),
    "a path that stays as long as it is": mjcf(
        body("f", '<freejoint name="root"/>', SITES) + body("a", hinge("a")) + '<site name="far" pos="5 5 5"/>',
        tendons(tendon("t", END.format("s1"))) + '<equality><tendon tendon1="t"/></equality>'
        + motors('site="s2" gear="1 2 3 4 5 6"', 'joint="a"')),
}  # fmt: skip


SETTINGS = {"a path that stays as long as it is": {"independent": ["x", "y", "yaw", "pitch", "roll", "a"]}}


def states(case: str, file: Path) -> list[tuple[Array, Array]]:
    """Own and MuJoCo's accelerations at random states, without dry friction."""
    machine = machine_of(file, **SETTINGS.get(case, {}))
    machine = machine.with_parameters({name: 0.0 for name in machine.parameters if name.endswith("_friction")})
    compiled, data = mujoco_model(file)
    compiled.tendon_frictionloss[:], names = 0, machine.description.state_names
    far = 0.1 if machine.description.constraints else 0.4
    joints, rng, found = JointStates(read(file), machine), np.random.default_rng(0), []
    for _ in range(3):
        x = machine.state({}) + np.append(rng.uniform(-far, far, len(names)), 0.0)
        for i in (names.index(name) for name in names if name.endswith("q_0")):
            x[i : i + 4] /= np.linalg.norm(x[i : i + 4])
        start = closed(machine, 0.0, x) if machine.description.constraints else x
        assert start is not None
        u = rng.uniform(-1, 1, compiled.nu)
        own = own_accelerations(machine, joints, compiled, data, start, u)
        found.append((own, hard_accelerations(compiled, data, u)))
    return found


@pytest.mark.parametrize("case", [*TREES, *LOOPS])
def test_motors_and_tendons_move_as_in_mujoco(case: str, tmp_path: Path) -> None:
    within = 1e-9 if case in TREES else 1e-7  # which derives the rows of loops by differences
    for own, expected in states(case, written(tmp_path, (TREES | LOOPS)[case])):
        assert_allclose(own, expected, rtol=within, atol=within * np.abs(expected).max())


@pytest.mark.parametrize("case", [*TREES, *LOOPS])
def test_units_of_what_pulls_agree(case: str, tmp_path: Path) -> None:
    made = model(read(written(tmp_path, (TREES | LOOPS)[case])))
    assert machine_mismatches(made) == ([], [])
