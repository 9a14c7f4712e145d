"""`servonode topic hz|bw|delay`: how often, how much and how late a run publishes, in the words of ros2."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Annotated, Any

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, option
from servonode.cli.listening import WHICH, followed, printing

if TYPE_CHECKING:
    from servonode.operator.listener import Raw

REPORT_S = 1.0  # s (wall clock) between two reports
EXITS = {0: "the run has ended", 2: "bad usage, or no such run or topic", **verb.INTERRUPTED}
OneTopic = Annotated[tuple[str, ...], argument("[RUN] TOPIC", required=True)]


def rate(times: Sequence[float]) -> dict[str, float]:
    """The average rate [1/s] over the messages that were published at these times [s]; empty for fewer than two."""
    steps = [later - before for before, later in zip(times, list(times)[1:], strict=False)]
    if not steps or times[-1] <= times[0]:
        return {}
    return {"rate": len(steps) / (times[-1] - times[0]), **_spread(steps), "window": len(times)}


def rate_text(found: Mapping[str, float]) -> str:
    """The words of ros2 for a rate."""
    spread = "min: {min:.3f}s max: {max:.3f}s std dev: {std:.5f}s".format_map(found)
    return f"average rate: {found['rate']:.3f}\n\t{spread} window: {found['window']}"


def bandwidth(came: Sequence[tuple[float, int]]) -> dict[str, float]:
    """Bytes a second, of messages with their times [s] and sizes; empty for fewer than two."""
    if len(came) < 2 or came[-1][0] <= came[0][0]:
        return {}
    sizes = [size for _, size in came]
    per_second = sum(sizes[1:]) / (came[-1][0] - came[0][0])
    return {"bytes_per_s": per_second, "mean": fmean(sizes), "min": min(sizes), "max": max(sizes), "window": len(came)}


def bandwidth_text(found: Mapping[str, float]) -> str:
    """The words of ros2 for a bandwidth."""
    per_second, mean, least, most = (_bytes(found[name]) for name in ("bytes_per_s", "mean", "min", "max"))
    return f"{per_second}/s from {found['window']} messages\n\tMessage size mean: {mean} min: {least} max: {most}"


def delay_of(delays: Sequence[float]) -> dict[str, float]:
    """The average of these delays [s]; empty for none."""
    return {"delay": fmean(delays), **_spread(delays), "window": len(delays)} if delays else {}


def delay_text(found: Mapping[str, float]) -> str:
    """The words of ros2 for a delay."""
    spread = "min: {min:.6f}s max: {max:.6f}s std dev: {std:.6f}s".format_map(found)
    return f"average delay: {found['delay']:.6f}\n\t{spread} window: {found['window']}"


def _spread(times: Sequence[float]) -> dict[str, float]:
    return {"min": min(times), "max": max(times), "std": pstdev(times)}


def _bytes(number: float) -> str:
    if number < 1000:
        return f"{number:.0f} B"
    return f"{number / 1e3:.2f} KB" if number < 1e6 else f"{number / 1e6:.2f} MB"


def _reports(
    name: str,
    default: int,
    examples: Sequence[str],
    help: str,
    measured: "Callable[[int, int, Raw], Any]",
    numbers: Callable[[Sequence[Any]], dict[str, float]],
    text: Callable[[Mapping[str, float]], str],
    poll_s: float | None = None,
    one_clock: bool = False,
) -> click.Command:
    """The command that measures each message, and reports of the newest of each publisher.

    default: how many those are. measured: from when a message was published and received [ns], and it. poll_s: as of
    RawInbox. one_clock: whether the times are compared with this computer's clock; a node of another one raises
    BusError.
    """
    many = f"Compute over this many of the newest messages (default: {default})."
    size = option(many, "N", click.IntRange(min=2), flag="--window -w", default=default)

    @command(examples, EXITS, name=name, help=help, logs=False)
    def reports(
        words: OneTopic,
        window: Annotated[int, size],
        as_json: Annotated[bool, option("Print each report as a JSON object on one line.", flag="--json")],
    ) -> None:
        from msgspec import DecodeError, Struct
        from msgspec.msgpack import Decoder

        from servonode.bus import BusError

        class Head(Struct):
            mono: int  # when it was published, by its sender's clock

        head = Decoder(Head)
        kept: dict[str, deque[Any]] = {}
        fresh: set[str] = set()  # those of which something came since the last report
        due = time.monotonic() + REPORT_S

        def report() -> None:
            if not fresh and not as_json:
                click.echo("no new messages")
            for name in sorted(fresh):
                if found := numbers(kept[name]):
                    said = "" if as_json else text(found)
                    verb.show({"topic": name, **found}, as_json, f"{name} {said}" if len(kept) > 1 else said)
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
                        value = measured(head.decode(raw.payload).mono, came, raw)
                        kept.setdefault(name, deque(maxlen=window)).append(value)
                        fresh.add(name)
                if time.monotonic() >= due:
                    report()
                    due = time.monotonic() + REPORT_S
            if fresh or not kept:
                report()

    return reports


hz = _reports(
    "hz",
    10000,
    ("servonode topic hz state", "servonode topic hz trailer_pursuit plant/state --window 500"),
    f"Show the rate of the messages of a topic, once a second.\n\nThe times are those of the sender's clock. {WHICH}",
    lambda published, _came, _raw: published / 1e9,
    rate,
    rate_text,
)
bw = _reports(
    "bw",
    100,
    ("servonode topic bw state", "servonode topic bw plant/state --window 1000"),
    f"Show the bandwidth of a topic, once a second.\n\n{WHICH}",
    lambda published, _came, raw: (published / 1e9, len(raw.payload)),
    bandwidth,
    bandwidth_text,
)
delay = _reports(
    "delay",
    10000,
    ("servonode topic delay state", "servonode topic delay controller/command --window 500"),
    "Show the delay of the messages of a topic, once a second.\n\n"
    "The delay is measured from the sender's monotonic clock to that of this process, on the same computer. "
    "This command takes only idle processor time, so it shows longer "
    f"delays on a busy computer. {WHICH}",
    lambda published, came, _raw: (came - published) / 1e9,
    delay_of,
    delay_text,
    poll_s=0.0,
    one_clock=True,
)
