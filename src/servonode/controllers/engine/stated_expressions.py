"""The expressions of [controller] on a machine, and what is made of them: units, the accelerations of a posture."""

from collections.abc import Iterable, Mapping
from typing import Any

import sympy

from servonode.controllers.engine.program import Residual, residual
from servonode.errors import ModelError, did_you_mean
from servonode.mechanics.description import MOST_DERIVATIVES, Requirement, derivative_name
from servonode.mechanics.dimensions import Dimensions, known_dimensions, unit_text
from servonode.mechanics.evaluate import are_zero
from servonode.mechanics.expression import ExpressionError, parse
from servonode.mechanics.frames import GROUND, axis_error, find_frame, frame_names, quantity, rotation_error, unit_of
from servonode.mechanics.model import Model
from servonode.mechanics.recursion import turn_of
from servonode.mechanics.straight_line import along, named
from servonode.mechanics.symbols import Condition, time

Matrix = Any  # sympy.Matrix
LETTERS = "xyz"
LARGEST_TURN, LARGEST_TILT = 3.999, 1000.0  # sizes of `rotation_error` and `axis_error` just below half a turn
Expr = Any
UNKNOWN = "to follow {} as a goal, state it in [target]; "
ANGLES = ("wrap", "atan2")  # functions whose values are angles


class StatedError(ModelError):
    """A value of [controller] that is not what its key may contain."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.section, self.key = "controller", key


class Reader:
    """Reads expressions on a machine: of time, its states, rates, outputs and parameters, and of its frames.

    signals: these and targets are known with their derivatives; own: what else is known by name. at_once: it may
    contain what inputs change at once.
    """

    def __init__(self, model: Model, signals: Iterable[Any], own: Mapping[str, Expr], at_once: bool = False) -> None:
        self._at_once, self.model, self.frames = at_once, model, frame_names(model)
        self.known: dict[str, Expr] = {"t": time} | {q.rate.name: q.rate for q in model.coordinates}
        self.known |= {each.quantity.name: each.expression for each in model.outputs}
        self.known |= {each.name: each for each in (*model.state, *model.parameters)}
        self.moving: dict[Expr, Expr] = {time: sympy.Integer(1)}
        for each in signals:
            self.known |= {derivative_name(each.name, n): each.derivative(n) for n in range(MOST_DERIVATIVES + 1)}
            self.moving |= {each.derivative(n): each.derivative(n + 1) for n in range(MOST_DERIVATIVES)}
        self.known |= own
        self.names = tuple(self.known)
        self.units: dict[Expr, str] = {}  # of quantities of frames

    def __call__(self, key: str, text: str | float) -> Expr:
        """The expression of a text that stands at a key of [controller].

        Raises:
            StatedError: it is wrong, or contains what no goal can.
        """
        try:
            expression = parse(text, self.names, self.frames, UNKNOWN)
            if not self._at_once:  # whose kinks are parts, see `faces`
                expression.require_derivatives(1, key.replace("residuals.", "residual "))
            self._add_quantities(expression.names)
            found = sympy.sympify(expression.sympy(self.known))
        except (ExpressionError, ModelError) as error:
            raise StatedError(key, str(error)) from error
        if not self._at_once and (reason := self.model.not_served(found)):
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


class FrameGoal:
    """The goal of one frame: `stated` has the keys of [controller.goal.NAME] that are given."""

    def __init__(self, model: Model, name: str, stated: Mapping[str, Any], read: Reader) -> None:
        self.name, self.stated, self.read = name, stated, read
        self.frame = self._frame(model, name, f"goal.{name}")
        base = stated.get("relative_to", GROUND)
        self.base = self._frame(model, base, f"goal.{name}.relative_to")
        self.beside = "" if base == GROUND else f" in the axes of {base}"

    def residuals(self) -> tuple[list[Residual], list[Condition]]:
        """The residuals, and the guard of an orientation.

        Raises:
            StatedError: the keys do not fit together, or a value is not what its key takes.
        """
        moved = self._place()
        turned, guards = self._turn()
        if not moved and not turned and {"orientation", "axis_z"} & self.stated.keys():
            raise StatedError(f"goal.{self.name}", "no motion of the machine turns it; give a frame that a joint turns")
        if not moved and not turned:
            raise StatedError(f"goal.{self.name}", "states nothing; give position, x, y, z, orientation or axis_z")
        return [*moved, *turned], guards

    def _frame(self, model: Model, name: str, key: str) -> Any:
        names = frame_names(model)
        if name not in names:
            there = f"choose {', '.join(names)}" if names else "its file or its Model(tree=...) has none"
            raise StatedError(key, f"machine {model.name} has no frame {name!r}; {did_you_mean(name, names)}{there}")
        return find_frame(model, name)

    def _place(self) -> list[Residual]:
        """Of the coordinates that are given, by position or alone."""
        alone = {letter: self.stated[letter] for letter in LETTERS if letter in self.stated}
        if "position" in self.stated and alone:
            text = f"there are both position and {', '.join(alone)}; give all three in position, or each alone"
            raise StatedError(f"goal.{self.name}.position", text)
        if "position" in self.stated:
            alone = dict(zip(LETTERS, self._entries("position", 3), strict=True))
        place = self.base.rotation.T * (self.frame.position - self.base.position)
        return [self._coordinate(letter, text, place[LETTERS.index(letter)]) for letter, text in alone.items()]

    def _coordinate(self, letter: str, text: str | float, place: Expr) -> Residual:
        key = f"goal.{self.name}.{'position' if 'position' in self.stated else letter}"
        what = f"{letter} of {self.name}{self.beside} less {text}"
        found = named(place)
        return residual(f"{self.name}_{letter}", found - self.read(key, text), what, "m", output=found)

    def _turn(self) -> tuple[list[Residual], list[Condition]]:
        """Of the orientation, or of the z axis alone; what no motion of the tree turns, as in a plane, is left out."""
        if "orientation" in self.stated and "axis_z" in self.stated:
            text = "there are both orientation and axis_z; an orientation has its z axis already: give one of them"
            raise StatedError(f"goal.{self.name}.axis_z", text)
        rotation = self.base.rotation.T * self.frame.rotation
        if "orientation" in self.stated:
            error, largest, left_out = rotation_error(rotation, self._wanted_rotation()), LARGEST_TURN, ""
        elif "axis_z" in self.stated:
            wanted = self._direction()
            largest, left_out = LARGEST_TILT, LETTERS[max(range(3), key=lambda i: abs(wanted[i]))]
            error = axis_error(rotation[:, 2], wanted)
        else:
            return [], []
        rows = {letter: each for letter, each in zip(LETTERS, error, strict=True) if letter != left_out}
        rows = {letter: each for letter, each in rows.items() if not are_zero([each])}
        what = f"turn of {self.name}{self.beside} from the wanted orientation about"
        found = [residual(f"{self.name}_r{letter}", each, f"{what} {letter}", "rad") for letter, each in rows.items()]
        return found, [self._below_half_a_turn(error, largest)]

    def _below_half_a_turn(self, error: Matrix, largest: float) -> Condition:
        text = f"{self.name} is half a turn away from the orientation that [controller.goal.{self.name}] wants, where "
        text += "no direction is the shortest; start closer to it, or let the goal begin closer"
        margin = named(largest**2 - error.dot(error))
        return Condition(margin, Requirement(text, strict=True), (margin, sympy.Integer(0)))

    def _wanted_rotation(self) -> Matrix:
        """Of roll, pitch and yaw about the fixed axes x, y and z in this order, or of a quaternion (w, x, y, z)."""
        key, texts = f"goal.{self.name}.orientation", self._entries("orientation", 3, 4)
        entries = [self.read(key, text) for text in texts]
        if not any(entries) and len(entries) == 4:
            raise StatedError(key, "the quaternion is 0, which is no orientation; give (w, x, y, z), as [1, 0, 0, 0]")
        if len(entries) == 3:
            return _of_angles(*entries)
        square = named(sum(each**2 for each in entries))  # of a quaternion of any length
        return sympy.Matrix(turn_of(*entries)).applyfunc(lambda each: named(each / square))

    def _direction(self) -> Matrix:
        """The unit vector of axis_z."""
        entries = self._entries("axis_z", 3)
        length = sum(each**2 for each in entries) ** 0.5
        if length == 0:
            raise StatedError(f"goal.{self.name}.axis_z", "is 0, which is no direction; give one, as [0, 0, 1]")
        return sympy.Matrix([sympy.sympify(each / length) for each in entries])

    def _entries(self, key: str, *counts: int) -> list[Any]:
        """The list at a key, of one of these lengths."""
        entries = self.stated[key]
        if len(entries) not in counts:
            what = "x, y, z" if key != "orientation" else "roll, pitch, yaw, or the 4 of a quaternion w, x, y, z"
            raise StatedError(f"goal.{self.name}.{key}", f"{len(entries)} entries; give {counts[0]}: {what}")
        return list(entries)


def _of_angles(roll: Expr, pitch: Expr, yaw: Expr) -> Matrix:
    """R_z(yaw) R_y(pitch) R_x(roll)."""
    (cx, sx), (cy, sy), (cz, sz) = ((sympy.cos(each), sympy.sin(each)) for each in (roll, pitch, yaw))
    about_z = sympy.Matrix([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    about_y = sympy.Matrix([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    return (about_z * about_y * sympy.Matrix([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])).applyfunc(named)
