"""`servonode topic hz|bw|delay`: how often, how much and how late a run publishes, in the words of ros2."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

import click

from servonode.cli import verb
from servonode.cli.listening import WHICH, followed, printing

if TYPE_CHECKING:
    from servonode.operator.raw_inbox import Raw

REPORT_S = 1.0  # s (wall clock) between two reports
EXITS = {0: "the run has ended", 2: "bad usage, or no such run or topic", **verb.INTERRUPTED}
_command = partial(click.command, cls=verb.Verb, logs=False, exits=EXITS)
_words = click.argument("words", metavar="[RUN] TOPIC", nargs=-1, required=True)


def _window(default: int) -> Callable[[Any], Any]:
    text = f"Compute over this many of the newest messages (default: {default})."
    return click.option("--window", "-w", type=click.IntRange(min=2), default=default, metavar="N", help=text)


@_command(
    examples=("servonode topic hz state", "servonode topic hz trailer_pursuit plant/state --window 500"),
    help=f"Show the rate of the messages of a topic, once a second.\n\n"
    f"The times are those of the sender's clock. {WHICH}",
)
@_words
@_window(10000)
def hz(words: tuple[str, ...], window: int) -> None:
    published = _published()
    _report(words, window, lambda raw, _: published(raw.payload) / 1e9, rate_text)


@_command(
    examples=("servonode topic bw state", "servonode topic bw plant/state --window 1000"),
    help=f"Show the bandwidth of a topic, once a second.\n\n{WHICH}",
)
@_words
@_window(100)
def bw(words: tuple[str, ...], window: int) -> None:
    published = _published()
    _report(words, window, lambda raw, _: (published(raw.payload) / 1e9, len(raw.payload)), bandwidth_text)


@_command(
    examples=("servonode topic delay state", "servonode topic delay controller/command --window 500"),
    help="Show the delay of the messages of a topic, once a second.\n\n"
    "The delay is measured from the sender's monotonic clock "
    "to that of this process, on the same computer. This command takes only idle processor time, so it shows longer "
    f"delays on a busy computer. {WHICH}",
)
@_words
@_window(10000)
def delay(words: tuple[str, ...], window: int) -> None:
    published = _published()
    _report(words, window, lambda raw, came: (came - published(raw.payload)) / 1e9, delay_text, 0.0, one_clock=True)


def _published() -> Callable[[bytes], int]:
    """The function that reads from a payload when it was published, by its sender's monotonic clock [ns]."""
    from msgspec import Struct
    from msgspec.msgpack import Decoder

    class Head(Struct):
        mono: int

    decode = Decoder(Head).decode
    return lambda payload: decode(payload).mono


def rate_text(times: Sequence[float]) -> str:
    """The average rate over the messages that were published at these times [s]; empty for fewer than two."""
    steps = [later - before for before, later in zip(times, list(times)[1:], strict=False)]
    if not steps or times[-1] <= times[0]:
        return ""
    head = f"average rate: {len(steps) / (times[-1] - times[0]):.3f}"
    spread = f"min: {min(steps):.3f}s max: {max(steps):.3f}s std dev: {pstdev(steps):.5f}s"
    return f"{head}\n\t{spread} window: {len(times)}"


def bandwidth_text(came: Sequence[tuple[float, int]]) -> str:
    """Bytes a second, of messages with their times [s] and sizes; empty for fewer than two."""
    if len(came) < 2 or came[-1][0] <= came[0][0]:
        return ""
    sizes = [size for _, size in came]
    rate = sum(sizes[1:]) / (came[-1][0] - came[0][0])
    mean, least, most = (_bytes(each) for each in (fmean(sizes), min(sizes), max(sizes)))
    return f"{_bytes(rate)}/s from {len(came)} messages\n\tMessage size mean: {mean} min: {least} max: {most}"


def delay_text(delays: Sequence[float]) -> str:
    """The average of these delays [s]; empty for none."""
    if not delays:
        return ""
    spread = f"min: {min(delays):.6f}s max: {max(delays):.6f}s std dev: {pstdev(delays):.6f}s"
    return f"average delay: {fmean(delays):.6f}\n\t{spread} window: {len(delays)}"


def _bytes(number: float) -> str:
    if number < 1000:
        return f"{number:.0f} B"
    return f"{number / 1e3:.2f} KB" if number < 1e6 else f"{number / 1e6:.2f} MB"


def _report(
    words: Sequence[str],
    window: int,
    measured: "Callable[[Raw, int], Any]",
    text: Callable[[Sequence[Any]], str],
    poll_s: float | None = None,
    one_clock: bool = False,
) -> None:
    """Measure each message with the time at which it was received [ns]; report the newest of each publisher.

    poll_s: as of RawInbox. one_clock: whether the times are compared with this computer's clock.

    Raises:
        BusError: that is so, and the node runs on another computer.
    """
    from msgspec import DecodeError

    from servonode.bus import BusError

    kept: dict[str, deque[Any]] = {}
    fresh: set[str] = set()  # those of which something came since the last report
    due = time.monotonic() + REPORT_S

    def report() -> None:
        if not fresh:
            click.echo("no new messages")
        for name in sorted(fresh):
            if said := text(kept[name]):
                click.echo(f"{name} {said}" if len(kept) > 1 else said)
        fresh.clear()

    with followed(words, poll_s) as listener, printing():
        far = set(listener.registry.get("elsewhere", ())) if one_clock else set()
        for batch in listener.batches():
            came = time.monotonic_ns()
            for raw in batch:
                name = f"{raw.node}/{raw.topic}"
                if raw.node in far:
                    why = f"the {raw.node} runs on another computer, which has another clock; ask there, or see"
                    raise BusError(f"{name}: {why} the delay of the link: servonode topic echo relay/status")
                with suppress(DecodeError):  # of whatever has taken the node's place
                    value = measured(raw, came)
                    kept.setdefault(name, deque(maxlen=window)).append(value)
                    fresh.add(name)
            if time.monotonic() >= due:
                report()
                due = time.monotonic() + REPORT_S
        if fresh or not kept:
            report()
