"""The messages between nodes: one frozen struct per topic, all values in SI units and radians.

On the wire each message is one msgpack map whose keys are the field names below. Unknown keys are ignored; a
missing or ill-typed one refuses the message. The bounds stand in the types, so that the decoder checks them
in C while it reads: NaN and infinity fail the comparison and never become a message.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

EXACT = 2**53  # largest integer up to which every integer is also a float64, so that viewers read ids exactly
LARGEST = 1.7976931348623157e308  # largest finite float64
MAX_ITEMS = 256  # items in a list, keys in a map
MAX_TEXT = 1024  # characters in a string
MAX_EXTRA = 64  # values that a machine may add to its state
MAX_PAYLOAD = 65536  # bytes of one encoded map

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Count = Annotated[int, Meta(ge=0, le=EXACT)]
CountOrNone = Annotated[int, Meta(ge=-1, le=EXACT)]  # -1: none
StartId = Annotated[int, Meta(gt=0, le=EXACT)]
Nanoseconds = Annotated[int, Meta(ge=0, le=2**63 - 1)]

# What the fast decoder takes. A value of 2^53 and more is rare and is looked at again with the wide types: a
# float is kept, an integer has lost digits on its way through float64 and is refused. The bound is one less
# than 2^53, because the integer 2^53 + 1 arrives here rounded to 2^53.
Number = Annotated[float, Meta(ge=1 - EXACT, le=EXACT - 1)]
Numbers = Annotated[list[Number], Meta(max_length=MAX_ITEMS)]
Values = Annotated[dict[Text, Number], Meta(max_length=MAX_ITEMS)]
Vectors = Annotated[dict[Text, Number | Numbers], Meta(max_length=MAX_ITEMS)]

ExtraName = Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]  # goes into columns and terminals
Extra = Annotated[dict[ExtraName, Number], Meta(max_length=MAX_EXTRA)] | UnsetType

# step at which it was measured, value, step, value, ...; by sensor
Readings = Annotated[dict[ExtraName, Numbers], Meta(max_length=MAX_EXTRA)] | UnsetType

# of a law's goal, entry by entry in the law's own order
Goal = Annotated[list[Number], Meta(max_length=MAX_ITEMS)] | UnsetType

_Integer = Annotated[int, Meta(ge=-EXACT, le=EXACT)]
_Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
WideNumber = _Integer | _Finite
WideNumbers = Annotated[list[WideNumber], Meta(max_length=MAX_ITEMS)]
WideValues = Annotated[dict[Text, WideNumber], Meta(max_length=MAX_ITEMS)]
WideExtra = Annotated[dict[ExtraName, WideNumber], Meta(max_length=MAX_EXTRA)] | UnsetType
WideGoal = Annotated[list[_Integer | _Finite], Meta(max_length=MAX_ITEMS)] | UnsetType
WideReadings = Annotated[dict[ExtraName, WideNumbers], Meta(max_length=MAX_EXTRA)] | UnsetType
WideVectors = Annotated[dict[Text, _Integer | _Finite | WideNumbers], Meta(max_length=MAX_ITEMS)]

Texts = Annotated[list[Text], Meta(max_length=MAX_ITEMS)]
Counts = Annotated[dict[Text, Count], Meta(max_length=MAX_ITEMS)]


def what(sentence: str, unit: str = "") -> Meta:
    """What a field says, and its unit; behind the type in its annotation, where viewers and schemas find it."""
    return Meta(description=sentence, extra={"unit": unit})


def plain(kind: Any) -> Any:
    """The type of a field without what it says about it."""
    if not hasattr(kind, "__metadata__"):
        return kind
    bounds = [each for each in kind.__metadata__ if each.description is None]
    return Annotated[(kind.__origin__, *bounds)] if bounds else kind.__origin__


class Lifecycle(StrEnum):
    """Where a node stands; of a plant, also whether commands may act."""

    UNCONFIGURED = "unconfigured"  # the machine has not answered yet
    INACTIVE = "inactive"
    ARMING = "arming"  # armed, waiting for the first good command; published as inactive
    ACTIVE = "active"
    FAULT = "fault"
    FINISHED = "finished"

    @property
    def accepts_commands(self) -> bool:
        """Whether a good command acts."""
        return self in (Lifecycle.ARMING, Lifecycle.ACTIVE)

    @property
    def published(self) -> "Lifecycle":
        """What a status says."""
        return Lifecycle.INACTIVE if self is Lifecycle.ARMING else self


# gc=False: a message holds only numbers, texts and maps of them, so it can never be part of a cycle.
class Message(Struct, frozen=True, kw_only=True, gc=False):
    """The header that every message carries; the values sit beside it in nested maps."""

    t: Annotated[Number, what("plant time", "s")]
    seq: Annotated[Count, what("number of this message at its sender, per topic")]
    run: Annotated[StartId, what("the plant's start id, echoed by all others")]
    k: Annotated[Count, what("plant step")]
    mono: Annotated[Nanoseconds, what("the sender's monotonic clock; never compared across machines", "ns")]
    node: Annotated[Text, what("the sender's name")]
    src: Annotated[StartId, what("the sender's start id")]


class State(Message, frozen=True, kw_only=True, gc=False):
    """What the plant measured at step `k`."""

    state: Annotated[Vectors, what("by the sheets' names; vectors as lists", "SI")]
    input: Annotated[Values, what("what was applied in the step that led here", "SI")]
    control: Annotated[bool, what("a control instant: a command is expected")]
    final: Annotated[bool, what("the explicit end of the run")] = False
    applied_seq: Annotated[CountOrNone, what("of a device: seq of the newest `applied` it took; -1: none")] = -1
    goal_k: Annotated[
        CountOrNone, what("the step of the goal that belongs to it: goal time stands while no command acts; -1: k")
    ] = -1
    age: Annotated[Number, what("how old the measured values are at `t`, in plant time", "s")] = 0.0
    latency: Annotated[
        Number, what("how long an input takes from `t` until it acts, as measured, in plant time; 0: not measured", "s")
    ] = 0.0
    extra: Annotated[
        Extra, what("of a device: what else it measures, such as battery or temperature; travels only if set")
    ] = UNSET
    readings: Annotated[
        Readings,
        what(
            "of sensors, new since the state before, by name: step of measuring, value, step, ...; travels only if set"
        ),
    ] = UNSET


class Command(Message, frozen=True, kw_only=True, gc=False):
    """What the law asks for, as the answer to one state."""

    re: Annotated[Count, what("seq of the state it answers")]
    target_seq: Annotated[CountOrNone, what("seq of the target it used; -1: none")]
    input: Annotated[Values, what("asked for, by name", "SI")]
    fault: Annotated[Text, what("not empty: the law failed for this reason, apply zero and stop")] = ""
    goal: Annotated[
        Goal, what("the goal that the law used, entry by entry, where a device has the same law; travels only if set")
    ] = UNSET


class Applied(Message, frozen=True, kw_only=True, gc=False):
    """What the safety filter let through, beside what was asked."""

    input: Annotated[Values, what("applied, by name", "SI")]
    desired: Annotated[Values, what("asked for, by name", "SI")]
    re: Annotated[CountOrNone, what("seq of the command it came from; -1: none")]
    reasons: Annotated[Texts, what("why applied differs from desired; empty: it does not")]
    repeats: Annotated[Count, what("periods in a row for which the command before was held")]
    until: Annotated[Count, what("to a device in lockstep: the step to which it is to integrate under this input")] = 0
    state_seq: Annotated[CountOrNone, what("to a device: seq of its newest state that had been taken; -1: none")] = -1
    final: Annotated[bool, what("to a device: the run is over, be safe and wait for the next `setup`")] = False


class Setup(Message, frozen=True, kw_only=True, gc=False):
    """What a device must know about the run that begins at plant step `k` of the header; docs/protocol.md."""

    machine: Annotated[Text, what("the machine's name")]
    mode: Annotated[Literal["realtime", "lockstep"], what("the clock of the run")]
    step: Annotated[Number, what("one plant step", "s")]
    period: Annotated[Number, what("the time between two control instants; 0: there is no controller", "s")]
    speed: Annotated[Number, what("plant seconds per wall second")]
    timeout: Annotated[
        Number,
        what("how long without a fresh `applied` the device stays in use: then it is safe by itself; wall clock", "s"),
    ]
    inputs: Annotated[Texts, what("their names, in order")]
    limits: Annotated[Values, what("largest magnitude that is sent, of the inputs that have one")]
    parameters: Annotated[Values, what("of the machine, by name")]
    start: Annotated[Vectors, what("the state at step 0; for simulations")]


class Target(Message, frozen=True, kw_only=True, gc=False):
    """Where to be: position, velocity and acceleration by name (`x`, `x_dot`, `x_ddot`); `k` and `t` are goal time."""

    target: Annotated[Values, what("the goal, by name, with its derivatives", "SI")]


class Report(Message, frozen=True, kw_only=True, gc=False):
    """How the law was evaluated at one state. A singular law sends `condition = LARGEST`: infinity is refused."""

    residual: Annotated[Values, what("how far each servo-constraint is missed, by name", "SI")]
    condition: Annotated[Number, what("condition number of the matrix it solved with")]
    saturated: Annotated[bool, what("whether a limit of the program acts")]
    compute_s: Annotated[Number, what("wall time the law took", "s")]
    re: Annotated[CountOrNone, what("seq of the state; -1: none")]
    scale: Annotated[Values, what("of each limit of the program: below 1 while it acts")] = {}


class Estimate(Message, frozen=True, kw_only=True, gc=False):
    """What the controller's estimator makes of the readings so far: the state on which the law worked."""

    state: Annotated[Vectors, what("the mean, by the sheets' names; vectors as lists", "SI")]
    std: Annotated[Values, what("standard deviation of each state, entry by entry", "SI")]
    innovation: Annotated[Values, what("of the readings that came: what was not foretold of each, by sensor", "SI")]
    nis: Annotated[Number, what("their squares in units of their predicted covariance; chi-square if all is as stated")]
    readings: Annotated[Count, what("how many that were: the degrees of freedom of `nis`")]
    nees: Annotated[
        Number, what("of the whole estimate against the true state, where that is known, as in `nis`; else 0")
    ]
    dimensions: Annotated[Count, what("the degrees of freedom of `nees`; 0: the true state is not known")]
    re: Annotated[CountOrNone, what("seq of the state; -1: none")]


class Status(Message, frozen=True, kw_only=True, gc=False):
    """A node's lifecycle state, its fault, and its counters."""

    lifecycle: Annotated[Lifecycle, what("where the node stands")]
    fault: Annotated[Text, what("the name of the fault; empty: none")] = ""
    safe_state: Annotated[Text, what("of a plant: the stage of the fault ladder")] = ""
    counts: Annotated[Counts, what("events since the start, by name")]
    values: Annotated[Values, what("measured times and other values, by name; times in s")]
    goal_k: Annotated[CountOrNone, what("of a plant: the step of the goal at present; -1: k")] = -1
