"""A derivation that is shared while the kernels of a machine and those of its laws are made."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servonode.mechanics.equations import Equations
    from servonode.mechanics.model import Model


class Derivation:
    """A Model as it is given, for programs on it, and its equations of motion, derived when first asked for."""

    def __init__(self, model: "Model") -> None:
        self.model = model

    @cached_property
    def equations(self) -> "Equations":
        """The equations of motion (this takes seconds).

        Raises:
            ModelError: the model cannot be derived.
        """
        from servonode.mechanics.derive import derive

        return derive(self.model)


_kept: ContextVar[dict[str, Derivation] | None] = ContextVar("_kept", default=None)  # by the machine's cache key


@contextmanager
def derived_once() -> Iterator[None]:
    """Within it each machine is derived once; at its end the equations are forgotten, for they are large."""
    if _kept.get() is not None:
        yield
        return
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def derivation(key: str, build: Callable[[], "Model"]) -> Derivation:
    """The derivation of the machine of this cache key, which `build` states.

    Raises:
        ModelError: it cannot be built.
    """
    kept = _kept.get()
    if kept is None:
        return Derivation(build())
    if key not in kept:
        kept[key] = Derivation(build())
    return kept[key]
