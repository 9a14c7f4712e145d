"""Common parts of the commands that subscribe to a run: names of topics, connections, output to a pipe."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from servonode.cli.options import WHICH_RUN
from servonode.errors import ServonodeError

if TYPE_CHECKING:
    from servonode.bus import Message
    from servonode.operator.listener import RawListener

WHICH = (
    "TOPIC is applied, command, estimate, parameters, report, state, status or target, or NODE/TOPIC for that of one "
    "node. " + WHICH_RUN
)


class NothingCame(ServonodeError):
    """No message came on a topic within the timeout."""

    exit_code = 1


def run_and(what: str, words: Sequence[str]) -> tuple[str | None, str]:
    """The run, if one is named, and the topic or node."""
    if len(words) > 2:
        raise click.UsageError(f"give one {what}, with at most one run before it")
    return (words[0] if len(words) == 2 else None), words[-1]


@contextmanager
def followed(words: Sequence[str], poll_s: float | None = None) -> "Iterator[RawListener]":
    """A listener that is connected to the topic of the run that `[RUN] TOPIC` means.

    poll_s: as for RawInbox. The listener runs at the lowest priority, so that it takes only idle processor time.
    """
    from servonode.operator.find_runs import find_run
    from servonode.operator.listener import POLLS, RawListener, give_way, named

    name, word = run_and("topic", words)
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


@contextmanager
def printing() -> Iterator[None]:
    """A context for output to a pipe: when the reader closes it, as `head` does, the command ends silently."""
    try:
        yield
    except BrokenPipeError:  # the interpreter writes nothing more at its end either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
