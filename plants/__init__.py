"""Plants: one file per machine, the plant contract, the simulated plant."""

import importlib
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from servonode import mechanics
from servonode.mechanics import cache
from servonode.mechanics.machine import Machine
from servonode.mechanics.machine import load_machine as _load
from servonode.plants.view import View

PLANTS: dict[str, str] = {
    "diff_drive_trailer": "differential-drive robot with a passive trailer",
}


def machine_key(name: str, settings: Mapping[str, Any]) -> str:
    """The cache key of a machine: its own source, the derivation's sources, its settings."""
    spec = importlib.util.find_spec(f"servonode.plants.{name}")
    if spec is None or spec.origin is None:
        raise KeyError(name)
    sources = cache.sources_digest(Path(mechanics.__file__).parent, Path(spec.origin))
    return cache.key_of("machine", name, sources, json.dumps(dict(settings), sort_keys=True))


def model_factory(name: str) -> Callable[..., Any]:
    """The function of a machine's file that returns its Model (this imports sympy)."""
    factory: Callable[..., Any] = importlib.import_module(f"servonode.plants.{name}").model
    return factory


def load_machine(name: str, parameters: Mapping[str, float], settings: Mapping[str, Any]) -> Machine:
    """The machine of this name in PLANTS, derived and compiled, or from the cache.

    Raises:
        CacheError, ModelError, ParameterError: see `servonode.mechanics.machine.load_machine`.
    """
    return _load(machine_key(name, settings), lambda: model_factory(name)(**settings), parameters)


def load_view(name: str) -> View:
    """How the machine of this name is drawn (this imports sympy)."""
    view: View = importlib.import_module(f"servonode.plants.{name}").VIEW
    return view
