"""The messages between nodes: one frozen struct per topic, all values in SI units and radians.

On the wire each message is one msgpack map whose keys are the field names below. Unknown keys are ignored; a
missing or ill-typed one refuses the message. The bounds stand in the types, so that the decoder checks them
in C while it reads: NaN and infinity fail the comparison and never become a message.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType, structs

EXACT = 2**53  # largest integer up to which every integer is also a float64, so that viewers read ids exactly
LARGEST = 1.7976931348623157e308  # largest finite float64
MAX_ITEMS = 256  # items in a list, keys in a map
MOST_NUMBERS = 1000  # that a node computes with, as those of a law
MAX_TEXT = 1024  # characters in a string
MAX_EXTRA = 64  # values that a machine may add to its state
MAX_PAYLOAD = 65536  # bytes of one encoded map

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Count = Annotated[int, Meta(ge=0, le=EXACT)]
CountOrNone = Annotated[int, Meta(ge=-1, le=EXACT)]  # -1: none
CountOrUnset = Count | UnsetType
TextOrUnset = Text | UnsetType
StartId = Annotated[int, Meta(gt=0, le=EXACT)]
Nanoseconds = Annotated[int, Meta(ge=0, le=2**63 - 1)]

# The types of the fast decoder. A value of 2^53 and more is rare and is decoded again with the wide types: a float is
# kept, an integer has lost digits on its way through float64 and is refused. The bound is one less than 2^53, because
# the integer 2^53 + 1 arrives here rounded to 2^53.
Number = Annotated[float, Meta(ge=1 - EXACT, le=EXACT - 1)]
Numbers = Annotated[list[Number], Meta(max_length=MAX_ITEMS)]
Values = Annotated[dict[Text, Number], Meta(max_length=MAX_ITEMS)]
Vectors = Annotated[dict[Text, Number | Numbers], Meta(max_length=MAX_ITEMS)]

ExtraName = Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]  # goes into columns and terminals
Extra = Annotated[dict[ExtraName, Number], Meta(max_length=MAX_EXTRA)] | UnsetType

# by sensor: step of measurement, value, step, value, ...
Readings = Annotated[dict[ExtraName, Numbers], Meta(max_length=MAX_EXTRA)] | UnsetType

Std = Values | UnsetType  # by entry of a state, by sensor, or by input

# the goal of a law, entry by entry in the law's own order
Goal = Annotated[list[Number], Meta(max_length=MAX_ITEMS)] | UnsetType

Many = Annotated[list[Number], Meta(max_length=MOST_NUMBERS)] | UnsetType

_Integer = Annotated[int, Meta(ge=-EXACT, le=EXACT)]
Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
WideNumber = _Integer | Finite
WideNumbers = Annotated[list[WideNumber], Meta(max_length=MAX_ITEMS)]
WideValues = Annotated[dict[Text, WideNumber], Meta(max_length=MAX_ITEMS)]
WideExtra = Annotated[dict[ExtraName, WideNumber], Meta(max_length=MAX_EXTRA)] | UnsetType
WideGoal = Annotated[list[_Integer | Finite], Meta(max_length=MAX_ITEMS)] | UnsetType
WideMany = Annotated[list[_Integer | Finite], Meta(max_length=MOST_NUMBERS)] | UnsetType
WideStd = WideValues | UnsetType
WideReadings = Annotated[dict[ExtraName, WideNumbers], Meta(max_length=MAX_EXTRA)] | UnsetType
WideVectors = Annotated[dict[Text, _Integer | Finite | WideNumbers], Meta(max_length=MAX_ITEMS)]

Mode = Literal["realtime", "lockstep"]
DriveCommand = Literal["effort", "velocity", "servo"]
Texts = Annotated[list[Text], Meta(max_length=MAX_ITEMS)]
Counts = Annotated[dict[Text, Count], Meta(max_length=MAX_ITEMS)]


class Kind(NamedTuple):
    """One type of field: its name for people, what the decoder takes instead for large numbers, its JSON Schema."""

    text: str
    schema: dict[str, Any]
    wide: Any = None  # None: the type itself


_NUMBERS_BY_NAME: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "number"}}
_NUMBER_LIST: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_INTEGER_SCHEMA: dict[str, Any] = {"type": "integer"}
_TEXT_SCHEMA: dict[str, Any] = {"type": "string"}
KINDS: dict[Any, Kind] = {  # of every field of every message, without its description
    Number: Kind("number", {"type": "number"}, WideNumber),
    Values: Kind("numbers by name", _NUMBERS_BY_NAME, WideValues),
    Vectors: Kind("numbers or lists by name", {"type": "object"}, WideVectors),
    Extra: Kind("numbers by name", _NUMBERS_BY_NAME, WideExtra),
    Readings: Kind("lists of numbers by name", {"type": "object", "additionalProperties": _NUMBER_LIST}, WideReadings),
    Std: Kind("numbers by name", _NUMBERS_BY_NAME, WideStd),
    Goal: Kind("list of numbers", _NUMBER_LIST, WideGoal),
    Many: Kind("list of numbers", _NUMBER_LIST, WideMany),
    Text: Kind("text", _TEXT_SCHEMA),
    TextOrUnset: Kind("text", _TEXT_SCHEMA),
    Texts: Kind("texts", {"type": "array", "items": _TEXT_SCHEMA}),
    Count: Kind("whole number", _INTEGER_SCHEMA),
    CountOrNone: Kind("whole number", _INTEGER_SCHEMA),
    CountOrUnset: Kind("whole number", _INTEGER_SCHEMA),
    StartId: Kind("whole number", _INTEGER_SCHEMA),
    Nanoseconds: Kind("whole number", _INTEGER_SCHEMA),
    Counts: Kind("whole numbers by name", {"type": "object", "additionalProperties": _INTEGER_SCHEMA}),
    Mode: Kind("text", _TEXT_SCHEMA),
    DriveCommand: Kind("text", _TEXT_SCHEMA),
    bool: Kind("flag", {"type": "boolean"}),
}


def what(sentence: str, unit: str = "") -> Meta:
    """A field's description and unit: it stands behind the type in an annotation, where viewers and schemas find it."""
    return Meta(description=sentence, extra={"unit": unit})


def plain(kind: Any) -> Any:
    """The type of a field without its description."""
    if not hasattr(kind, "__metadata__"):
        return kind
    bounds = [each for each in kind.__metadata__ if each.description is None]
    return Annotated[(kind.__origin__, *bounds)] if bounds else kind.__origin__


class Lifecycle(StrEnum):
    """The lifecycle state of a node; that of a plant also decides whether commands act."""

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
        """The state that a status message shows."""
        return Lifecycle.INACTIVE if self is Lifecycle.ARMING else self


KINDS[Lifecycle] = Kind("text", _TEXT_SCHEMA)


class Field(NamedTuple):
    """A field of a message, for people, viewers and schemas."""

    name: str
    kind: Kind
    unit: str
    what: str


def fields_of(message: type[Struct]) -> list[Field]:
    """The fields of a message in their order; KeyError for a type that KINDS lacks."""
    found = []
    for each in structs.fields(message):
        about = next((m for m in getattr(each.type, "__metadata__", ()) if m.description), Meta(description=""))
        unit = (about.extra or {}).get("unit", "")
        found.append(Field(each.name, KINDS[plain(each.type)], unit, about.description or ""))
    return found


# gc=False: a message holds only numbers, texts and maps of them, so it can never be part of a cycle.
class Message(Struct, frozen=True, kw_only=True, gc=False):
    """The header of every message; the values follow it in nested maps."""

    t: Annotated[Number, what("plant time", "s")]
    seq: Annotated[Count, what("number of this message at its sender, per topic")]
    run: Annotated[StartId, what("the plant's start id, echoed by all others")]
    k: Annotated[Count, what("plant step")]
    mono: Annotated[Nanoseconds, what("the sender's monotonic clock; never compared across machines", "ns")]
    node: Annotated[Text, what("the sender's name")]
    src: Annotated[StartId, what("the sender's start id")]


class State(Message, frozen=True, kw_only=True, gc=False):
    """The state of the plant, measured at step `k`."""

    state: Annotated[Vectors, what("by name; vectors as lists", "SI")]
    input: Annotated[Values, what("the inputs that were applied in the step up to here", "SI")]
    control: Annotated[bool, what("whether this is a control instant, at which a command is expected")]
    final: Annotated[bool, what("whether this is the last state of the run")] = False
    applied_seq: Annotated[CountOrNone, what("from a device: seq of the newest `applied` that it took; -1: none")] = -1
    goal_k: Annotated[
        CountOrNone, what("the step of the goal at this state: goal time stops while no command acts; -1: k")
    ] = -1
    age: Annotated[Number, what("age of the measured values at `t`, in plant time", "s")] = 0.0
    latency: Annotated[
        Number,
        what(
            "by how much later than `t` and `controller.delay` an answer acts, as measured, in plant time: over a "
            "network and the link to a machine; 0: not measured",
            "s",
        ),
    ] = 0.0
    extra: Annotated[
        Extra, what("from a device: other measured values, such as battery or temperature; sent only if set")
    ] = UNSET
    readings: Annotated[
        Readings,
        what("new sensor readings, by name: step of measurement, value, step, ...; sent only if set"),
    ] = UNSET
    std: Annotated[
        Std,
        what(
            "standard deviation of each state, entry by entry, from a plant that estimates its state; sent only if set",
            "SI",
        ),
    ] = UNSET
    innovation: Annotated[
        Std, what("with `std`: the innovation of the readings since the previous state, by sensor")
    ] = UNSET
    consistency: Annotated[
        Std,
        what("with `std`: `nis`, the squared innovations in units of their covariance, and the number of `readings`"),
    ] = UNSET
    rejected: Annotated[
        Std, what("with `std`: the number of readings since the previous state that the gate rejected, by sensor")
    ] = UNSET


class Command(Message, frozen=True, kw_only=True, gc=False):
    """The inputs that the law commands, as the answer to one state."""

    re: Annotated[Count, what("seq of the state it answers")]
    target_seq: Annotated[CountOrNone, what("seq of the target it used; -1: none")]
    input: Annotated[Values, what("the commanded inputs, by name", "SI")]
    fault: Annotated[Text, what("the reason if the law failed: apply zero and stop; empty: none")] = ""
    fault_name: Annotated[
        TextOrUnset, what("name of the fault where that is not `law` but `keep_NAME`; sent only if set")
    ] = UNSET
    goal: Annotated[
        Goal, what("the goal that the law used, entry by entry, for a device with the same law; sent only if set")
    ] = UNSET
    parameters_seq: Annotated[
        CountOrUnset, what("seq of the newest `parameters` that it used; sent only if there are any")
    ] = UNSET


class Parameters(Message, frozen=True, kw_only=True, gc=False):
    """Numbers of the launch file that an operator has changed; `k` and `t` are those from which they act."""

    values: Annotated[Values, what("all that differ from the start of the node, by the launch file's dotted key", "SI")]
    numbers: Annotated[
        Many, what("what the node computes with: of a law, or the limits of a plant; sent only if set")
    ] = UNSET


class Applied(Message, frozen=True, kw_only=True, gc=False):
    """The inputs that the safety filter applied, and the commanded ones."""

    input: Annotated[Values, what("the applied inputs, by name", "SI")]
    desired: Annotated[Values, what("the commanded inputs, by name", "SI")]
    re: Annotated[CountOrNone, what("seq of the command it came from; -1: none")]
    reasons: Annotated[Texts, what("the reasons why `input` differs from `desired`; empty: it does not")]
    repeats: Annotated[Count, what("the number of consecutive periods for which the previous command was held")]
    speed: Annotated[
        Std, what("to a device whose drives take speeds: the speeds that `input` brings about; sent only if set", "SI")
    ] = UNSET
    servo: Annotated[
        Std,
        what(
            "to a device whose drives are servos: the commands that give `input`; absent: rest where they stand", "SI"
        ),
    ] = UNSET
    until: Annotated[Count, what("to a device in lockstep: the step up to which it integrates under this input")] = 0
    state_seq: Annotated[CountOrNone, what("to a device: seq of its newest state that was received; -1: none")] = -1
    final: Annotated[bool, what("to a device: the run is over, take the safe action and wait for the next `setup`")] = (
        False
    )


class Setup(Message, frozen=True, kw_only=True, gc=False):
    """The description of the run that begins at plant step `k`, for a device; docs/reference/protocol.md."""

    machine: Annotated[Text, what("the machine's name")]
    mode: Annotated[Mode, what("the clock of the run")]
    step: Annotated[Number, what("the length of a plant step", "s")]
    period: Annotated[Number, what("the time between two control instants; 0: there is no controller", "s")]
    speed: Annotated[Number, what("plant seconds per second of wall-clock time")]
    timeout: Annotated[
        Number,
        what("the time without a fresh `applied` after which the device takes its safe action; wall clock", "s"),
    ]
    inputs: Annotated[Texts, what("the names of the inputs, in order")]
    limits: Annotated[Values, what("the largest magnitude that is sent, for the inputs that have a limit")]
    parameters: Annotated[Values, what("the parameters of the machine, by name")]
    start: Annotated[Vectors, what("the initial state, for simulations")]
    command: Annotated[
        DriveCommand,
        what("what the drives are sent: `effort` by `input`, `velocity` by `speed`, or `servo` by `servo`"),
    ] = "effort"


class Target(Message, frozen=True, kw_only=True, gc=False):
    """The goal at goal time, by name, with the derivatives in use (`x`, `x_dot`, `x_d3`, ...)."""

    target: Annotated[Values, what("the goal, by name, with its derivatives", "SI")]


class Report(Message, frozen=True, kw_only=True, gc=False):
    """The evaluation of the law at one state. A singular law sends `condition = LARGEST`: infinity is refused."""

    residual: Annotated[Values, what("the residual of each servo-constraint, by name", "SI")]
    condition: Annotated[Number, what("condition number of the matrix W")]
    saturated: Annotated[bool, what("whether a limit of the program acts")]
    compute_s: Annotated[Number, what("computing time of the law, wall clock", "s")]
    re: Annotated[CountOrNone, what("seq of the state; -1: none")]
    scale: Annotated[Values, what("the scale of each limit of the program: below 1 while it acts")] = {}
    margin: Annotated[Std, what("the margin of each keep, by name; sent only if something is kept", "SI")] = UNSET
    active: Annotated[Std, what("with `margin`: 1 while the inputs are changed for a keep, -1: it gives way")] = UNSET
    keeping: Annotated[
        CountOrUnset, what("with `margin`: 0: the inputs keep all, 1: they are changed, 2: not all is kept, 3: clipped")
    ] = UNSET


class Estimate(Message, frozen=True, kw_only=True, gc=False):
    """The estimate of the controller's estimator: the state that the law used."""

    state: Annotated[Vectors, what("the estimated state, by name; vectors as lists", "SI")]
    std: Annotated[Values, what("standard deviation of each state, entry by entry", "SI")]
    innovation: Annotated[Values, what("the innovation of the new readings, by sensor", "SI")]
    nis: Annotated[
        Number, what("the squared innovations in units of their predicted covariance; chi-square if the model holds")
    ]
    readings: Annotated[Count, what("the number of new readings in use: the degrees of freedom of `nis`")]
    nees: Annotated[
        Number, what("the squared error of the whole estimate, scaled as in `nis`, if the true state is known; else 0")
    ]
    dimensions: Annotated[Count, what("the degrees of freedom of `nees`; 0: the true state is unknown")]
    re: Annotated[CountOrNone, what("seq of the state; -1: none")]
    rejected: Annotated[Std, what("the number of new readings that the gate rejected, by sensor; sent only if set")] = (
        UNSET
    )


class Status(Message, frozen=True, kw_only=True, gc=False):
    """A node's lifecycle state, its fault, and its counters."""

    lifecycle: Annotated[Lifecycle, what("the lifecycle state of the node")]
    fault: Annotated[Text, what("the name of the fault; empty: none")] = ""
    safe_state: Annotated[Text, what("from a plant: the safe state of the fault ladder")] = ""
    counts: Annotated[Counts, what("events since the start, by name")]
    values: Annotated[Values, what("measured times and other values, by name; times in s")]
    goal_k: Annotated[CountOrNone, what("from a plant: the present step of the goal; -1: k")] = -1


# No word is the start of another: ZeroMQ matches subscriptions by prefix.
TOPICS: dict[str, type[Message]] = {
    "state": State,
    "command": Command,
    "applied": Applied,
    "setup": Setup,
    "target": Target,
    "report": Report,
    "status": Status,
    "estimate": Estimate,
    "parameters": Parameters,
}


def topic_named(word: str) -> type[Message]:
    """The message type of topic `word`; ValueError with the choices for an unknown one."""
    try:
        return TOPICS[word]
    except KeyError:
        raise ValueError(f"topic {word!r} is unknown; choose {', '.join(sorted(TOPICS))}") from None
