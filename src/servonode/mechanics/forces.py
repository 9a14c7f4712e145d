"""Known forces as a model states them: expressions of state and time, each with the rate on which it does work."""

from collections.abc import Iterable, Mapping
from typing import Any

import sympy

from servonode.definitions.source_location import Place
from servonode.errors import ModelError
from servonode.mechanics.switches import without_signs
from servonode.mechanics.symbols import refuse_uncompilable

Expr = Any
Forces = tuple[tuple[Expr, Expr], ...]  # force, rate on which it does work


def stated_forces(machine: str, stated: Any, place: Place) -> Forces:
    """The forces of a model's argument, a mapping or pairs, in one form.

    Raises:
        ModelError: it is neither, two keys of the mapping are the same, or an expression cannot be compiled.
    """
    what, where = f"machine {machine}", place.argument("forces")
    pairs = list(stated.items() if isinstance(stated, Mapping) else stated) if isinstance(stated, Iterable) else None
    if pairs is None or not all(isinstance(each, tuple | list) and len(each) == 2 for each in pairs):
        text = f"{what}: forces= is neither a mapping nor pairs; write it as {{-c*v**2: x.rate}}"
        raise ModelError(f"{text} or as ((-c*v**2, x.rate), ...)", where)
    if isinstance(stated, Mapping) and (place.entries("forces") or 0) > len(stated):
        text = f"{what}: two of forces= are the same expression, of which a mapping keeps one; give pairs,"
        raise ModelError(f"{text} forces=((expression, rate), ...)", where)
    for i, (force, on) in enumerate(pairs):
        refuse_uncompilable(f"{what}: the force on {on}", force, place.argument("forces", i), switches=True)
        refuse_uncompilable(f"{what}: the rate of the force {force}", on, place.argument("forces", i))
    return tuple((without_signs(force), sympy.sympify(on)) for force, on in pairs)
