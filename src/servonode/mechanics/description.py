"""Descriptions of machines and programs for processes without sympy: names, units, defaults, bounds.

These structs travel to the disk cache as JSON, so that launch files are checked and nodes are started without
importing the symbolic side.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

T = TypeVar("T")
JOINT_LIMIT = "joint_limit"  # the fault of a joint that leaves its range


class Quantity(msgspec.Struct, frozen=True):
    """A named number: its ASCII name, what it is, its unit; default and bounds of parameters, limits of readings."""

    name: str
    description: str
    unit: str = "1"
    default: float | None = None
    above: float | None = None  # must be greater than
    at_least: float | None = None  # must be greater than or equal to
    limit: float | None = None  # largest magnitude of a state's readings, or of an input
    rate_limit: float | None = None  # of a state: the fastest plausible change [unit per s]

    def complaint(self, value: float) -> str | None:
        """Why `value` is not valid for this quantity, or None where it is."""
        if not math.isfinite(value):
            return f"{value} is not a finite number"
        if self.above is not None and not value > self.above:
            return f"{value:g} {self.unit} must be greater than {self.above:g}"
        if self.at_least is not None and not value >= self.at_least:
            return f"{value:g} {self.unit} must be at least {self.at_least:g}"
        return None


class SensorDescription(msgspec.Struct, frozen=True):
    """A sensor of a machine: what it measures, and its errors where a launch file defines no others."""

    quantity: Quantity
    noise: float = 0.0  # standard deviation
    quantum: float = 0.0  # step to which it is rounded
    rate: float | None = None  # Hz; None: each control instant
    delay: float = 0.0  # s
    drop: float = 0.0  # share of readings that are lost
    wraps: bool = False  # an angle that is read from -pi to pi

    @property
    def name(self) -> str:
        return self.quantity.name


class Requirement(msgspec.Struct, frozen=True):
    """A condition on parameters or on the start: its margin must be positive (or not negative)."""

    text: str
    strict: bool
    names: tuple[str, ...] = ()  # the parameters in it
    name: str = "machine"  # of the fault that a violation is
    relation: str = ""  # "a = {0} kg, must be at least b*c = {1}": {0} the value of the greater side, {1} of the other

    def met(self, margin: float) -> bool:
        """Whether a margin meets it."""
        return margin > 0 or (margin == 0 and not self.strict)

    def refusal(self, greater: float, lesser: float) -> str:
        """What to say where it is not met: the relation with the values of its sides, and what a violation means."""
        shown = ([f"{each:.{digits}g}" for each in (greater, lesser)] for digits in (4, 8, 17))
        values = next((each for each in shown if each[0] != each[1]), [f"{greater:g}", f"{lesser:g}"])
        return f"{self.relation.format(*values)}: {self.text}"


Layout = tuple[tuple[str, int], ...]


def packed(layout: Layout, numbers: Sequence[float]) -> dict[str, float | list[float]]:
    """The numbers of a state by their names in messages and files, vectors as lists."""
    values: dict[str, float | list[float]] = {}
    at = 0
    for name, size in layout:
        values[name] = list(numbers[at : at + size]) if size else numbers[at]
        at += size or 1
    return values


def unpacked(layout: Layout, values: Mapping[str, float | list[float]]) -> list[float]:
    """The numbers of a state from their names in messages and files.

    Raises:
        KeyError: a name is missing; ValueError: a vector has another size, or is a number.
    """
    numbers: list[float] = []
    for name, size in layout:
        value = values[name]
        if size and isinstance(value, list) and len(value) == size:
            numbers += value
        elif not size and not isinstance(value, list):
            numbers.append(value)
        else:
            raise ValueError(f"{name} = {value!r} is not {f'a list of {size} numbers' if size else 'a number'}")
    return numbers


class Skeleton(msgspec.Struct, frozen=True):
    """The links of a tree, then its frames; the place of each one's parent among them, -1: the ground."""

    names: tuple[str, ...]
    parents: tuple[int, ...]
    links: int


CAPTION_FIELD = re.compile(
    r"\{:(\+?)\.(\d)f\}"
)  # of a caption: the place of a number, with its sign or not, and digits
# the directions across and up of a picture of what moves in space, seen from 20° above the ground at 60° beside x
IN_SPACE = (
    (0.8660254037844386, 0.5000000000000001, 0.0),
    (-0.17101007166283438, 0.2961981327260238, 0.9396926207859084),
)


class DrawnShape(msgspec.Struct, frozen=True):
    """What a shape's numbers are, among those of `Machine.drawing`: `rows` rows of `size` numbers from place `at` on.

    line: its points; of one a dot. circle: its centre, and two vectors from there to its edge, which span it: centre +
    cos(s) a + sin(s) b at `corners` + 1 angles from 0 to 2 pi. trail: a point, whose path has these columns; `recorded`
    where these are states and outputs. arrow: foot and vector. pose: x, y, angle in a row of three; else rotation and
    place in three rows of four. In a view without a projection a third number is a height: what is below 0 is hidden.
    """

    kind: Literal["line", "circle", "trail", "arrow", "pose"]
    at: int
    rows: int
    size: int
    thin: bool = False
    name: str = ""  # of a trail and an arrow in the legend, of a pose
    unit: str = ""  # of an arrow
    corners: int = 0
    columns: tuple[str, ...] = ()
    recorded: bool = False


class DrawnView(msgspec.Struct, frozen=True):
    """A view of a machine whose shapes are numbers; the others of its fields are those of `plants.view.View`.

    caption: a text with a `CAPTION_FIELD` for each of the numbers from place `caption_at` on. lean_at: the place of the
    lean, -1 without one. magnified: what of it is enlarged, as the title then says; empty: nothing.
    """

    shapes: tuple[DrawnShape, ...]
    title: str
    axes: tuple[str, str]
    goal: tuple[str, ...] | None
    strip: bool
    projection: tuple[tuple[float, ...], ...] | None
    caption: str = ""
    caption_at: int = 0
    lean_at: int = -1
    magnified: str = ""


class MachineDescription(msgspec.Struct, frozen=True):
    """All names of a machine, in the order of its arrays (state order = the model sheet's): a field for each group."""

    name: str
    description: str
    state: tuple[Quantity, ...]
    coordinates: tuple[str, ...]
    velocities: tuple[str, ...]  # and first-order states
    inputs: tuple[Quantity, ...]
    parameters: tuple[Quantity, ...]
    outputs: tuple[Quantity, ...]
    constraints: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    warnings: tuple[Requirement, ...]
    faults: tuple[Requirement, ...]  # conditions whose violation ends a run
    has_safe_action: bool  # whether the machine defines a safe action of its own
    panels: tuple[tuple[str, ...], ...]
    vectors: dict[str, tuple[str, ...]] = {}  # states that go as one list outside: n -> n_0, n_1, n_2
    reactions: tuple[str, ...] = ()  # unknowns that the machine itself determines; outputs too
    stabilised: tuple[Quantity, ...] = ()  # constraints that reactions hold, by their residuals
    jumps: tuple[tuple[str, str], ...] = ()  # what sets states at once: what it is, and where it begins to act
    jumps_compare: bool = False  # whether what they set depends on the states at the step's beginning
    jump_terms: int = 0  # margins of jumps and values that they set, as functions of the state and of time
    independent: tuple[str, ...] = ()  # coordinates that a start keeps, where it closes loops
    first_order: tuple[str, ...] = ()  # of the velocities: those that are no motion
    held: tuple[str, ...] = ()  # holonomic constraints and identities, restored by every step
    safe: dict[str, str] = {}  # the safe action of each input that has one, as an expression of the state
    sensors: tuple[SensorDescription, ...] = ()
    places: dict[str, str] = {}  # where in the source: "model", "kinetic", ..., and each coordinate's kinematics
    notes: tuple[str, ...] = ()  # what `check` says of the machine
    has_full_form: bool = False  # in rates with multipliers
    by_numbers: tuple[str, ...] = ()  # constraints and identities that random states show to hold, without a proof
    skeleton: Skeleton | None = None  # of a tree
    drawing: tuple[DrawnView, ...] = ()  # how it is drawn
    n_drawn: int = 0  # numbers of the drawing

    @property
    def state_names(self) -> tuple[str, ...]:
        return tuple(quantity.name for quantity in self.state)

    @property
    def dead_points(self) -> str:
        """The condition in a kernel that the number of a fault, `fault`, is that of a dead point; empty without any."""
        return " or ".join(f"fault == {i}" for i, each in enumerate(self.faults, 1) if each.name == "dead_point")

    @property
    def layout(self) -> Layout:
        """The state's names outside with their sizes, 0 for a number, in the order of the array."""
        of = {entry: name for name, entries in self.vectors.items() for entry in entries}
        sizes = {of.get(name, name): len(self.vectors[of[name]]) if name in of else 0 for name in self.state_names}
        return tuple(sizes.items())

    @property
    def columns(self) -> tuple[str, ...]:
        """The states as columns of a table: X, n[0], n[1], n[2]."""
        return tuple(
            column for name, size in self.layout for column in ([f"{name}[{i}]" for i in range(size)] or [name])
        )

    @property
    def rolls(self) -> bool:
        """Whether constraints on rates hold the machine, such as wheels that roll: fewer velocities than places."""
        return len(self.velocities) < len(self.coordinates) - len(self.held)

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(quantity.name for quantity in self.inputs)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that shapes of arrays are made of, see `kernels`; those of the constants not."""
        n_q, n_c, n = len(self.coordinates), len(self.constraints), len(self.state)
        return {
            "n_state": n, "n_x": n + 1, "n_tau": len(self.inputs), "n_p": len(self.parameters),
            "n_q": n_q, "n_v": len(self.velocities), "n_c": n_c, "n_full": n_q + n_c,
            "n_requirements": len(self.requirements), "n_residuals": n_c + len(self.stabilised),
            "n_held": len(self.held), "n_monitored": len(self.outputs) + len(self.warnings),
            "n_poses": len(self.skeleton.names) if self.skeleton else 0, "n_jumps": len(self.jumps),
            "n_jump_terms": self.jump_terms, "n_drawn": self.n_drawn,
        }  # fmt: skip


Completion = Literal[
    "none", "least_norm", "ideal", "posture"
]  # what chooses among the inputs where there are fewer rows


class ExtensionDescription(msgspec.Struct, frozen=True):
    """What a law does where its inputs do not reach the residuals at once."""

    steps: tuple[str, ...]  # sentences: what comes too early, and how it is demanded
    integrators: tuple[Quantity, ...]  # states of the law, after those of the program
    left_free: int  # states of machine, program and integrators that the residuals do not determine
    determinant: str = ""  # of the decoupling matrix, factored, where it is short
    depends_on: tuple[str, ...] = ()  # what moves of which it is a function
    chained: tuple[bool, ...] = ()  # of each integrator: whether its rate is the next one


class Tracked(msgspec.Struct, frozen=True):
    """A residual that is an output less its goal; `column`: the state or output of the machine that it is, or ""."""

    residual: str
    column: str


class Kept(msgspec.Struct, frozen=True):
    """What a law keeps at or above zero, without its expression; numbers that are None are found at the start."""

    quantity: Quantity
    degrees: tuple[int, ...]  # the relative degree of each of its faces
    priority: int = 1  # the largest number gives way first
    rate: float | None = None  # 1/s
    brake: float | None = None  # unit/s^2
    margin: float = 0.0
    tolerance: float = 1e-3
    place: str = ""


class ProgramDescription(msgspec.Struct, frozen=True):
    """All names of a program, in the order of the compiled law's arrays: a field for each group."""

    name: str
    description: str
    residuals: tuple[Quantity, ...]  # default: the default convergence rate [1/s]
    relative_degrees: tuple[int, ...]
    parameters: tuple[Quantity, ...]  # default None: computed at the start by the `start` kernel
    targets: tuple[str, ...]
    signals: tuple[Quantity, ...]
    signal_defaults: tuple[str, ...]
    target_order: int
    signal_order: int
    guards: tuple[Requirement, ...]
    relations: int  # rows F of F tau = tau_0 beside the residuals
    completion: Completion
    integral: bool  # y ends with the integrals of the residuals
    explicit: bool  # the program states the inputs itself; residuals are only watched
    weighted: bool = False  # the least norm has a weight for each input, behind the law's parameters
    places: tuple[str, ...] = ()  # where in the source each residual is given
    required: tuple[str, ...] = ()  # parameters that the launch file must give
    states: tuple[Quantity, ...] = ()  # of the program itself, and of the law's integrators
    limits: tuple[Quantity, ...] = ()
    watches: tuple[Quantity, ...] = ()
    requirements: tuple[Requirement, ...] = ()  # of the start
    warnings: tuple[Requirement, ...] = ()
    extension: "ExtensionDescription | None" = None
    unreachable: str = ""  # why no extension makes the inputs reach the residuals, where W is singular at all states
    feeds_back: bool = True  # whether the inputs depend on the machine's state
    tells_crossings: bool = False  # whether answers tell the sign of det W
    own: bool = False  # whether it is a controller in Python, of which nothing is derived
    target_units: tuple[str, ...] = ()  # of the targets; empty: not known
    tracked: tuple[Tracked, ...] = ()  # the residuals that are an output less its goal
    keeps: tuple[Kept, ...] = ()
    limited: bool = False  # the law keeps the limits of the inputs
    priorities: tuple[int, ...] = ()  # of the residuals; empty: all have the first
    yields: bool = True  # where not all can be kept something gives way; else that is a fault

    @property
    def keeping(self) -> bool:
        """Whether the law keeps something."""
        return bool(self.keeps) or self.limited

    @property
    def faces(self) -> list[tuple[int, int]]:
        """The number of its keep, and the relative degree, of each face that is kept."""
        return [(i, degree) for i, each in enumerate(self.keeps) for degree in each.degrees]

    @property
    def found(self) -> tuple[str, ...]:
        """The parameters that are computed at the start."""
        return tuple(e.name for e in self.parameters if e.default is None and e.name not in self.required)


def values_by_name(quantities: Sequence[Quantity], given: Mapping[str, float]) -> tuple[float, ...]:
    """The value of each quantity: the given one, else its default (names are checked by the caller)."""
    return tuple(float(given.get(quantity.name, quantity.default or 0.0)) for quantity in quantities)


MOST_DERIVATIVES = 8  # of a target or a signal


def derivatives(things: Iterable[T], order: int) -> list[tuple[T, int]]:
    """Each thing with the order of each of its derivatives, 0 first: the order of targets and signals in arrays."""
    return [(thing, k) for thing in things for k in range(order + 1)]


def derivative_name(name: str, order: int) -> str:
    """`x`, `x_dot`, `x_ddot`, `x_d3`, ...: how derivatives are called everywhere."""
    return name + ("", "_dot", "_ddot")[order] if order < 3 else f"{name}_d{order}"
