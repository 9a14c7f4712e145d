"""Packaged machines in one call: keys, functions, and machines as they are loaded."""

from collections.abc import Callable, Mapping
from typing import Any

from servonode.mechanics.machine import Machine
from servonode.plants import packaged_machine


def machine_key(name: str, settings: Mapping[str, Any]) -> str:
    """The cache key of a machine of PLANTS."""
    return packaged_machine(name, settings).key


def model_factory(name: str) -> Callable[..., Any]:
    """The function of a machine in PLANTS that returns its Model."""
    return packaged_machine(name).definition.call


def load_machine(name: str, parameters: Mapping[str, float], settings: Mapping[str, Any]) -> Machine:
    """A machine of PLANTS, derived and compiled, or from the cache."""
    return packaged_machine(name, settings).load(parameters)
