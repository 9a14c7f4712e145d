"""What needs an optional dependency is skipped without it, and says so."""

from importlib.util import find_spec

import pytest

MUJOCO = find_spec("mujoco") is not None
NO_MUJOCO = 'needs MuJoCo: pip install "servonode[mujoco]"'


def needs_mujoco() -> None:
    """Skip the module that calls it where MuJoCo is not installed."""
    if not MUJOCO:
        pytest.skip(NO_MUJOCO, allow_module_level=True)
