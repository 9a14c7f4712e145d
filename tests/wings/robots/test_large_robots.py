"""Robots of many joints: accelerations as MuJoCo has them."""

from pathlib import Path

import numpy as np
import pytest

from servonode.mechanics import trees
from tests.helpers.extras import needs_mujoco
from tests.helpers.robots import accelerations, machine_of, mujoco_model, random_state

needs_mujoco()


def chain(n: int, body: str = "", more: str = "") -> str:
    """A chain of n hinges about the three axes in turn, with a body at its end."""
    axes = ("1 0 0", "0 1 0", "0 0 1")
    for i in reversed(range(n)):
        inertial = f'<inertial pos="0.01 0.02 0.05" mass="{0.5 + 0.01 * i:.2f}" diaginertia="0.002 0.003 0.001"/>'
        turned = f'pos="{0.02 * (i % 2)} 0.01 0.1" euler="{5 * (i % 3)} {3 * (i % 4)} 0"'
        joint = f'<joint name="j{i}" axis="{axes[i % 3]}" damping="0.1"/>'
        body = f'<body name="b{i}" {turned}>{joint}{inertial}{body}</body>'
    motors = "".join(f'<motor name="m{i}" joint="j{i}"/>' for i in range(n))
    return f'<mujoco model="chain"><worldbody>{body}</worldbody><actuator>{motors}</actuator>{more}</mujoco>'


def four_bar(name: str, y: float) -> str:
    """Two bars that meet at the end of the second, and the third one."""

    def bar(number: int, place: str, body: str = "") -> str:
        inertial = '<inertial pos="0.01 0.02 0.05" mass="0.2" diaginertia="0.002 0.003 0.001"/>'
        joint = f'<joint name="{name}{number}" axis="0 1 0"/>'
        return f'<body name="{name}{number}" pos="{place}">{joint}{inertial}{body}</body>'

    return bar(0, f"-0.1 {y} 0", bar(1, "0 0 0.2")) + bar(2, f"0.1 {y} 0")


@pytest.mark.parametrize("n", [19, 24])
def test_a_chain_accelerates_as_in_mujoco(tmp_path: Path, n: int) -> None:
    file = tmp_path / "chain.xml"
    file.write_text(chain(n))
    machine, (model, data), rng = machine_of(file), mujoco_model(file), np.random.default_rng(0)
    for _ in range(5):
        (q, v), u = random_state(model, rng), rng.uniform(-1, 1, n)
        wanted = accelerations(model, data, q, v, u)
        found = machine.derivatives(0.0, np.concatenate([q, v, [0.0]]), u)[n : 2 * n]
        assert np.abs(found - wanted).max() < 1e-9 * np.abs(wanted).max()


def test_loops_are_stated_in_the_axes_of_the_link_that_carries_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "LEAST", 1)
    file = tmp_path / "bars.xml"
    connect = '<equality><connect name="pin" body1="c1" body2="c2" anchor="0.15 0 0.05"/></equality>'
    file.write_text(chain(2, four_bar("c", 0.2), connect))
    machine = machine_of(file)  # which is compared with MuJoCo
    assert machine.n_state == 5 + 3
    assert [each.name for each in machine.description.outputs] == ["pin_force_x", "pin_force_z"]
    assert machine.description.outputs[0].description == "force of the loop pin on its first body along x of b1"
    assert np.count_nonzero(machine.matrices(0.0, machine.state({})).A) == 2 * 3
