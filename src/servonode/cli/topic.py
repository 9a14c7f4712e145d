"""`servonode topic` and `servonode node`: what the nodes of a run publish, how often, how late, and what they are."""

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Annotated, Any

import click

from servonode.cli import verb
from servonode.cli.command import argument, command, group, option
from servonode.cli.options import COUNT, WHICH_RUN, AsJson, FiniteRange, OneRun
from servonode.errors import ServonodeError, did_you_mean

if TYPE_CHECKING:
    from servonode.bus import Message
    from servonode.cli.topic_text import TopicEntry
    from servonode.operator.find_runs import Found
    from servonode.operator.listener import Raw, RawListener

REPORT_S = 1.0  # s (wall clock) between two reports
RATES_SHOWN = {0: "the run has ended", 2: "bad usage, or no such run or topic", **verb.INTERRUPTED}
SHOWN = {0: "shown", **verb.BAD_USAGE, **verb.INTERRUPTED}
WHICH = (
    "TOPIC is applied, command, estimate, parameters, report, state, status or target, or NODE/TOPIC for that of one "
    "node. " + WHICH_RUN
)
OneTopic = Annotated[tuple[str, ...], argument("[RUN] TOPIC", required=True)]


@group
def topic() -> None:
    """List, describe and print the topics of a run."""


@group
def node() -> None:
    """List and describe the nodes of a run."""


_topic, _node = (partial(command, of=each, logs=False) for each in (topic, node))


class NothingCame(ServonodeError):
    """No message came on a topic within the timeout."""

    exit_code = 1


@contextmanager
def followed(words: Sequence[str], poll_s: float | None = None) -> "Iterator[RawListener]":
    """A listener that is connected to the topic of the run that `[RUN] TOPIC` means.

    poll_s: as for RawInbox. The listener runs at the lowest priority, so that it takes only idle processor time.
    """
    from servonode.operator.find_runs import find_run
    from servonode.operator.listener import POLLS, RawListener, give_way, named

    name, word = verb.run_and("topic", words)
    folder = str(find_run(name).path)
    give_way()
    with RawListener(folder, partial(named, word), 1 / POLLS if poll_s is None else poll_s) as listener:
        listener.wait_open()
        yield listener


@contextmanager
def messages(words: Sequence[str], timeout: float | None) -> "Iterator[Iterator[tuple[str, Message]]]":
    """All messages of `[RUN] TOPIC`, each with its topic, until the run has ended.

    Raises NothingCame where nothing comes for `timeout` seconds.
    """
    with followed(words) as listener:
        yield _decoded(listener, words[-1], timeout)


def _decoded(listener: "RawListener", word: str, timeout: float | None) -> "Iterator[tuple[str, Message]]":
    from servonode.bus import MessageError, decode

    last = time.monotonic()
    for batch in listener.batches():
        for raw in batch:
            try:
                message = decode(raw.topic.encode(), raw.payload)
            except MessageError:  # of whatever has taken the node's place
                continue
            yield raw.topic, message
        if batch:
            last = time.monotonic()
        elif timeout is not None and time.monotonic() - last > timeout:
            raise NothingCame(f"nothing came on {word} for {timeout:g} s")


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

    @_topic(examples, RATES_SHOWN, name=name, help=help)
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

        with followed(words, poll_s) as listener, verb.printing():
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


@_topic(
    ("servonode topic list", "servonode topic list trailer_pursuit -t", "servonode topic list -v"),
    SHOWN,
    name="list",
    help=f"Show the topics of a run, or all topics if no run is in progress.\n\n{WHICH_RUN}",
)
def list_(
    name: OneRun,
    show_types: Annotated[bool, option("Show the type of the messages.", flag="-t --show-types")],
    verbose: Annotated[bool, option("Show types, publishers, subscribers and contents.", flag="-v --verbose")],
    as_json: AsJson,
) -> None:
    from servonode.cli.topic_text import summary

    run, entries = _topics(name)
    with verb.printing():
        if as_json:
            click.echo(json.dumps([each.as_dict() for each in entries]))
        for each in entries if not as_json else ():
            if verbose or run is None:
                click.echo(summary(each))
            else:
                click.echo(f"{each.name} [{each.type}]" if show_types else each.name)


@_topic(
    ("servonode topic info state", "servonode topic info trailer_pursuit plant/status --json"),
    SHOWN,
    help=f"Show the contents, the publishers and the subscribers of a topic.\n\n"
    f"{WHICH} If no run is in progress, the command describes the topics of any run.",
)
def info(words: OneTopic, as_json: AsJson) -> None:
    from servonode.cli.topic_text import described
    from servonode.operator.listener import named

    name, word = verb.run_and("topic", words)
    run, entries = _topics(name)
    wanted = named(word, {each.node: None for each in entries})
    found = [each for each in entries if each.topic in wanted.get(each.node, ())]
    address = run.registry.get("telemetry") if run else None
    with verb.printing():
        if as_json:
            content = [each.as_dict() | {"fields": each.fields(), "telemetry": address} for each in found]
            click.echo(json.dumps(content))
        else:
            click.echo(described(found, address))


@_topic(
    (
        "servonode topic echo state",
        "servonode topic echo state --field state.V --once",
        "servonode topic echo state --field t --field state --csv > states.csv",
        "servonode topic echo trailer_pursuit plant/status -n 1 --json",
    ),
    {
        0: "the run has ended, or COUNT messages were printed",
        1: "no message within the timeout",
        2: "bad usage, or no such run, topic or field",
        **verb.INTERRUPTED,
    },
    help=f"Print the messages of a topic, one per line.\n\n{WHICH} The run never waits for this command.",
)
def echo(
    words: OneTopic,
    fields: Annotated[
        tuple[str, ...], option("Print only this field, such as state.V (repeatable).", "FIELD", flag="--field")
    ],
    as_csv: Annotated[bool, option("Print CSV: a line of names, then a line of values per message.", flag="--csv")],
    as_json: Annotated[bool, option("Print each message as a JSON object on one line.", flag="--json")],
    count: Annotated[int | None, option("End after this many messages.", "COUNT", COUNT, flag="-n")],
    once: Annotated[bool, option("End after one message.")],
    timeout: Annotated[float | None, option("End when no message comes for this long.", "SECONDS", FiniteRange(min=0))],
) -> None:
    from servonode.cli.topic_text import Printer

    if as_csv and as_json:
        raise click.UsageError("give --csv or --json, not both")
    if once and count not in (None, 1):
        raise click.UsageError("give --once or -n COUNT, not both")
    printer = Printer(fields, "csv" if as_csv else "json" if as_json else "text")
    with messages(words, timeout) as came, verb.printing():
        for message in islice(came, 1 if once else count):
            printer.show(message)


def _topics(name: str | None) -> "tuple[Found | None, list[TopicEntry]]":
    """A run, by name or the only one in progress, and its topics; None and those of any run where none is in progress.

    Then a message says so.
    """
    from servonode.cli.topic_text import table
    from servonode.operator.find_runs import find_run, find_runs

    if name is None and not find_runs():
        click.echo("servonode: no run is in progress; these are the topics of any run", err=True)
        return None, table(None)
    return (run := find_run(name)), table(run.described()["nodes"])


@_node(
    ("servonode node list", "servonode node list trailer_pursuit --json"),
    {0: "shown", 2: "bad usage, or no such run", **verb.INTERRUPTED},
    name="list",
    help=f"Show the nodes of a run.\n\n{WHICH_RUN}",
)
def node_list(name: OneRun, as_json: AsJson) -> None:
    from servonode.operator.find_runs import find_run

    nodes = sorted(find_run(name).described()["nodes"])
    with verb.printing():
        click.echo(json.dumps(nodes) if as_json else "\n".join(nodes))


@_node(
    ("servonode node info plant", "servonode node info trailer_pursuit controller --json"),
    {0: "shown", 1: "the node does not answer", 2: "bad usage, or no such run or node", **verb.INTERRUPTED},
    name="info",
    help=f"Show a node: its process, lifecycle, topics and requests.\n\n{WHICH_RUN}",
)
def node_info(words: Annotated[tuple[str, ...], argument("[RUN] NODE", required=True)], as_json: AsJson) -> None:
    from servonode.bus import TOPICS, BusError
    from servonode.bus.topology import NODES
    from servonode.operator.find_runs import find_run
    from servonode.operator.operator_requests import status

    run, name = verb.run_and("node", words)
    found = find_run(run)
    nodes = found.described()["nodes"]
    if name not in nodes:
        near = did_you_mean(name, nodes)
        raise BusError(f"run {found.name!r} has no node {name!r}; {near}choose {', '.join(sorted(nodes))}")
    answer, process, entry = status(str(found.path))["nodes"][name], found.process(name), NODES[name]
    topics_in = [f"{other}/{topic}" for other, topics in entry.subscribes.items() for topic in topics if other in nodes]
    lifecycle, fault, error = answer.get("lifecycle"), answer.get("fault", ""), answer.get("error", "")
    content = {
        "node": name,
        "run": found.name,
        "pid": process.pid if process else None,
        "lifecycle": lifecycle,
        "fault": fault,
        "error": error,
        "publishes": {f"{name}/{topic}": TOPICS[topic].__name__ for topic in entry.publishes},
        "subscribes": {each: TOPICS[each.partition("/")[2]].__name__ for each in topics_in},
        "requests": list(entry.verbs),
    }
    lines = [name, f"  Process: {content['pid'] or 'unknown'}"]
    lines.append(f"  Lifecycle: {f'no answer: {error}' if error else lifecycle}{f', fault {fault}' if fault else ''}")
    for title, names in (("Subscribers", content["subscribes"]), ("Publishers", content["publishes"])):
        lines += [f"  {title}:", *(f"    {each}: {kind}" for each, kind in names.items())]
    lines += ["  Requests:", *(f"    {word}" for word in entry.verbs)]
    with verb.printing():
        verb.show(content, as_json, "\n".join(lines))
    sys.exit(1 if error else 0)
