"""What needs an optional dependency is skipped without it, and says so."""

from importlib.util import find_spec
from typing import Any

import pytest

MUJOCO = find_spec("mujoco") is not None
NO_MUJOCO = 'needs MuJoCo: pip install "servonode[mujoco]"'


def oracle(name: str) -> Any:
    """A module of the dependency group `oracles`; the test that calls it is skipped where it is not installed."""
    return pytest.importorskip(name, reason=f"needs {name}: uv sync --group oracles")


def json_validator(schema: Any) -> Any:
    """What judges content by a JSON schema, of the draft that servonode states."""
    return oracle("jsonschema").Draft202012Validator(schema)


def needs_mujoco() -> None:
    """Skip the module that calls it where MuJoCo is not installed."""
    if not MUJOCO:
        pytest.skip(NO_MUJOCO, allow_module_level=True)


def python_can() -> Any:
    """The library of CAN buses; the test that calls it is skipped where it is not installed."""
    return pytest.importorskip("can", reason='needs python-can: pip install "servonode[can]"')


def neighbour(name: str) -> Any:
    """A module of the library of another tool; the test that calls it is skipped where it is not installed."""
    extra = "rerun" if name.startswith("rerun") else "neighbours"
    return pytest.importorskip(name, reason=f'needs {name}: pip install "servonode[{extra}]"')


def of_sweeps(name: str) -> Any:
    """A library that sweeps need; the module or test that calls it is skipped where it is not installed."""
    return pytest.importorskip(name, reason=f'needs {name}: pip install "servonode[cluster]"')
