"""The expressions of [controller] on a machine, and what is made of them: units, the accelerations of a posture."""

from collections.abc import Iterable, Mapping
from typing import Any

import sympy

from servonode.errors import ModelError, did_you_mean
from servonode.mechanics.differentiate import along
from servonode.mechanics.dimensions import Dimensions, known_dimensions
from servonode.mechanics.expression import ExpressionError, parse
from servonode.mechanics.frames import frame_names, quantity, unit_of
from servonode.mechanics.model import Model
from servonode.mechanics.symbols import time
from servonode.mechanics.units import unit_text

Expr = Any
UNKNOWN = "to follow {} as a goal, state it in [target]; "
ANGLES = ("wrap", "atan2")  # functions whose values are angles


class StatedError(ModelError):
    """A value of [controller] that is not what its key may contain."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.section, self.key = "controller", key


class Reader:
    """Reads expressions on a machine: of the names that are known, and of its frames.

    moving: what moves by itself -> its rate, such as targets.
    """

    def __init__(self, model: Model, known: Mapping[str, Expr], moving: Mapping[Expr, Expr]) -> None:
        self.model, self.known, self.frames = model, dict(known), frame_names(model)
        self.names = tuple(known)
        self.moving = {time: sympy.Integer(1), **moving}
        self.units: dict[Expr, str] = {}  # of quantities of frames

    def __call__(self, key: str, text: str | float) -> Expr:
        """The expression of a text that stands at a key of [controller].

        Raises:
            StatedError: it is wrong, or contains what no goal can.
        """
        try:
            expression = parse(text, self.names, self.frames, UNKNOWN)
            expression.require_derivatives(1, key.replace("residuals.", "residual "))
            self._add_quantities(expression.names)
            found = sympy.sympify(expression.sympy(self.known))
        except (ExpressionError, ModelError) as error:
            raise StatedError(key, str(error)) from error
        if reason := self.model.not_served(found):
            raise StatedError(key, reason)
        return found

    def _add_quantities(self, names: Iterable[str]) -> None:
        """Give the quantities of frames that an expression contains their own expressions."""
        for name in names:
            if name not in self.known:
                self.known[name] = quantity(self.model, name)
                self.units[self.known[name]] = unit_of(name)

    def unit(self, expression: Expr) -> str:
        """The unit of a residual: that of a state, rate or place that is a term of it, else of the first with one."""
        units = {each: each.quantity.unit for each in self.model.state} | self.units
        units |= {q.rate: q.own_velocity().quantity.unit for q in self.model.coordinates}
        terms = sympy.Add.make_args(expression)
        alone = next((units[each] for term in terms for each in (term, -term) if each in units), None)
        if alone is not None:
            return str(alone)
        if any(type(term).__name__ in ANGLES for term in terms):
            return "rad"
        dimensions = Dimensions(known_dimensions(self.model)[0])
        found = (dimensions.of("", term) for term in terms)
        return next((unit_text(each) for each in found if each is not None), "1")


def wanted_accelerations(reader: Reader, places: Mapping[str, str | float], rate: Expr) -> dict[Expr, Expr]:
    """What a posture wants, by velocity: p'' - 2 k (q - p)' - k^2 (q - p) of joints q with places p, k its rate.

    All other motions are braked, -2 k v.

    Raises:
        StatedError: there is no such joint, or its place is not a function of time, targets and settings.
    """
    model = reader.model
    joints = {q.name: q for q in model.coordinates if model.rates[q.rate] in model.velocities}
    found = {v: -2 * rate * v for v in model.velocities}
    for name, text in places.items():
        key = f"posture.joints.{name}"
        if name not in joints:
            near = did_you_mean(name, joints)
            raise StatedError(key, f"machine {model.name} has no joint {name!r}; {near}choose {', '.join(joints)}")
        place, q = reader(key, text), joints[name]
        if strange := sorted(each.name for each in place.free_symbols & {*model.state, *model.rates}):
            text = f"it contains {strange[0]}, which moves by forces; give a function of time, targets and settings"
            raise StatedError(key, text)
        v, first = model.rates[q.rate], along(place, reader.moving)
        found[v] = along(first, reader.moving) - 2 * rate * (v - first) - rate**2 * (q - place)
    return found
