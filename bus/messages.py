"""The messages between nodes: one frozen struct per topic, all values in SI units and radians.

On the wire each message is one msgpack map whose keys are the field names below. Unknown keys are ignored; a
missing or ill-typed one refuses the message. The bounds stand in the types, so that the decoder checks them
in C while it reads: NaN and infinity fail the comparison and never become a message.
"""

from enum import StrEnum
from typing import Annotated, Literal

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

_Integer = Annotated[int, Meta(ge=-EXACT, le=EXACT)]
_Finite = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
WideNumber = _Integer | _Finite
WideNumbers = Annotated[list[WideNumber], Meta(max_length=MAX_ITEMS)]
WideValues = Annotated[dict[Text, WideNumber], Meta(max_length=MAX_ITEMS)]
WideExtra = Annotated[dict[ExtraName, WideNumber], Meta(max_length=MAX_EXTRA)] | UnsetType
WideVectors = Annotated[dict[Text, _Integer | _Finite | WideNumbers], Meta(max_length=MAX_ITEMS)]

Texts = Annotated[list[Text], Meta(max_length=MAX_ITEMS)]
Counts = Annotated[dict[Text, Count], Meta(max_length=MAX_ITEMS)]


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

    t: Number  # s, plant time
    seq: Count  # number of this message at its sender, per topic
    run: StartId  # the plant's start id, echoed by all others
    k: Count  # plant step
    mono: Nanoseconds  # ns, the sender's monotonic clock; never compared across machines
    node: Text  # the sender's name
    src: StartId  # the sender's start id


class State(Message, frozen=True, kw_only=True, gc=False):
    """What the plant measured at step `k`."""

    state: Vectors  # by the sheets' names; vectors as lists
    input: Values  # what was applied in the step that led here
    control: bool  # a control instant: a command is expected
    final: bool = False  # the explicit end of the run
    applied_seq: CountOrNone = -1  # of a device: seq of the newest `applied` it took; -1: none
    goal_k: CountOrNone = -1  # the step of the goal that belongs to it: goal time stands while no command acts; -1: k
    age: Number = 0.0  # s of plant time, how old the measured values are at `t`
    extra: Extra = UNSET  # of a device: what else it measures, such as battery or temperature; travels only if set


class Command(Message, frozen=True, kw_only=True, gc=False):
    """What the law asks for, as the answer to one state."""

    re: Count  # seq of the state it answers
    target_seq: CountOrNone  # seq of the target it used; -1: none
    input: Values
    fault: Text = ""  # not empty: the law failed for this reason, apply zero and stop


class Applied(Message, frozen=True, kw_only=True, gc=False):
    """What the safety filter let through, beside what was asked."""

    input: Values  # applied
    desired: Values  # asked
    re: CountOrNone  # seq of the command it came from; -1: none
    reasons: Texts  # why applied differs from desired; empty: it does not
    repeats: Count  # periods in a row for which the command before was held
    until: Count = 0  # to a device in lockstep: the step to which it is to integrate under this input
    state_seq: CountOrNone = -1  # to a device: seq of its newest state that had been taken; -1: none
    final: bool = False  # to a device: the run is over, be safe and wait for the next `setup`


class Setup(Message, frozen=True, kw_only=True, gc=False):
    """What a device must know about the run that begins at plant step `k` of the header; docs/protocol.md."""

    machine: Text  # the machine's name
    mode: Literal["realtime", "lockstep"]
    step: Number  # s, one plant step
    period: Number  # s, between two control instants; 0: there is no controller
    speed: Number  # plant seconds per wall second
    timeout: Number  # s (wall clock) without a fresh `applied` after which the device is safe by itself
    inputs: Texts  # their names, in order
    limits: Values  # largest magnitude that is sent, of the inputs that have one
    parameters: Values  # of the machine, by name
    start: Vectors  # the state at step 0; for simulations


class Target(Message, frozen=True, kw_only=True, gc=False):
    """Where to be: position, velocity and acceleration by name (`x`, `x_dot`, `x_ddot`); `k` and `t` are goal time."""

    target: Values


class Report(Message, frozen=True, kw_only=True, gc=False):
    """How the law was evaluated at one state. A singular law sends `condition = LARGEST`: infinity is refused."""

    residual: Values
    condition: Number  # condition number of the matrix it solved with
    saturated: bool  # whether a limit of the program acts
    compute_s: Number  # s, wall time the law took
    re: CountOrNone  # seq of the state; -1: none
    scale: Values = {}  # of each limit of the program: below 1 while it acts


class Status(Message, frozen=True, kw_only=True, gc=False):
    """A node's lifecycle state, its fault, and its counters."""

    lifecycle: Lifecycle
    fault: Text = ""
    safe_state: Text = ""  # of a plant: the stage of the fault ladder
    counts: Counts
    values: Values
    goal_k: CountOrNone = -1  # of a plant: the step of the goal at present; -1: k
