"""Robots of many joints: accelerations as MuJoCo has them."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.extras import needs_mujoco
from tests.helpers.robots import accelerations, machine_of, mujoco_model, random_state

needs_mujoco()


def chain(n: int) -> str:
    """A chain of n hinges about the three axes in turn."""
    axes, body = ("1 0 0", "0 1 0", "0 0 1"), ""
    for i in reversed(range(n)):
        inertial = f'<inertial pos="0.01 0.02 0.05" mass="{0.5 + 0.01 * i:.2f}" diaginertia="0.002 0.003 0.001"/>'
        turned = f'pos="{0.02 * (i % 2)} 0.01 0.1" euler="{5 * (i % 3)} {3 * (i % 4)} 0"'
        joint = f'<joint name="j{i}" axis="{axes[i % 3]}" damping="0.1"/>'
        body = f'<body name="b{i}" {turned}>{joint}{inertial}{body}</body>'
    motors = "".join(f'<motor name="m{i}" joint="j{i}"/>' for i in range(n))
    return f'<mujoco model="chain"><worldbody>{body}</worldbody><actuator>{motors}</actuator></mujoco>'


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
