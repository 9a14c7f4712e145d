"""`servonode run` of a launch file with several robots: a launcher for each, which begin and stop together."""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from servonode.bus.fleet_memory import READY, FleetMemory
from servonode.bus.topology import LAUNCHER
from servonode.cli.deliver import ENDING
from servonode.cli.start_checks import spool_of
from servonode.errors import ServonodeError
from servonode.nodes.node_process import Child, call_process, forked
from servonode.nodes.terminal import drain_output, never_waiting

LOOK_S = 0.01
LEFT_S = 10.0  # time in which the other robots end after one has, before they are told to


def joined_bag(file: str | None, parts: Mapping[str, Path | None]) -> str:
    """Make one recording of those of the robots; a line about it, empty where none was wanted."""
    there = {robot: part for robot, part in parts.items() if part and part.exists() and not spool_of(part).exists()}
    if file is None:
        return ""
    if len(there) < len(parts):
        return f"in parts, for not all robots have one: {', '.join(map(str, there.values())) or 'none'}"
    from servonode.record.mcap_records import join_bags

    try:
        return f"{file} ({join_bags(there, Path(file))} messages)"
    except OSError as error:
        return f"in parts, for {file} cannot be written ({error.strerror}): {', '.join(map(str, there.values()))}"


@dataclass
class _Robot:
    """The launcher of one robot. result: what it prints on standard output."""

    child: Child
    result: IO[str]


@dataclass
class FleetRun:
    """The launchers of a run, one for each robot, and the signals that they get."""

    name: str
    memory: FleetMemory
    robots: dict[str, _Robot] = field(default_factory=dict)
    code: int = 0  # exit code of the first robot that did not complete
    signal: int | None = None  # the first by which the run was told to end
    _limit: float | None = None  # time by which the others must have ended

    def start(self, robot: str, launch: Callable[[], int]) -> None:
        """Fork the launcher of a robot, which does `launch`."""
        result = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  (as long as the run)

        def live() -> int:
            os.dup2(result.fileno(), 1)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            try:
                return launch()
            except ServonodeError as error:
                sys.stderr.write(f"servonode: {error}\n")
                return error.exit_code
            finally:
                sys.stdout.flush()

        self.robots[robot] = _Robot(forked(robot, self.name, live, signal.SIGTERM), result)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Pass on to the launchers what tells the run to end, or to stop at once."""
        wanted = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
        handlers: dict[int, Any] = dict.fromkeys(wanted, self._end)
        handlers |= dict.fromkeys((signal.SIGQUIT, signal.SIGUSR1), lambda *_: self._send(signal.SIGQUIT))
        previous = [(number, signal.signal(number, handler)) for number, handler in handlers.items()]
        try:
            yield
        finally:
            for number, handler in previous:
                signal.signal(number, handler)

    def _end(self, number: int, _: Any) -> None:
        self.signal = self.signal or number
        self._send(number)

    def _send(self, number: int) -> None:
        for each in self.robots.values():
            if each.child.code is None:
                os.kill(each.child.pid, number)

    def watch(self) -> None:
        """Print what the launchers say until all have ended; the others end after one that fails."""
        while not all(each.child.code is not None for each in self.robots.values()):
            time.sleep(LOOK_S)
            for robot, each in self.robots.items():
                each.child.forward()
                if each.child.code is None and each.child.has_ended():
                    self._ended(robot, each.child)
            if self._limit is not None and time.monotonic() > self._limit:
                self._limit = None
                self._send(signal.SIGINT)
        for each in self.robots.values():
            each.child.forward()
            each.child.close()

    def _ended(self, robot: str, child: Child) -> None:
        code = child.code or 0
        if code < 0:
            sys.stderr.write(f"servonode: {self.name}: the launcher of {child.describe()}\n")
            code = 1
        self.memory.member(robot).end("its launcher has ended")  # does nothing where its plant has told more
        self.code = self.code or code
        if code and self._limit is None:
            begun = self.memory.all_have(READY)
            self._limit = time.monotonic() + (LEFT_S if begun else 0.0)

    def cause(self) -> str:
        """Why the robots have stopped: the robot whose fault came first, and the fault; empty where none has."""
        return next((f"robot {robot}: {text}" for robot, text in self.memory.causes()), "")

    def results(self) -> dict[str, str]:
        """What each launcher printed as its result, without the recording, which is joined to one."""
        found = {}
        for robot, each in self.robots.items():
            each.result.seek(0)
            found[robot] = "".join(line for line in each.result if not line.startswith("  recording "))
            each.result.close()
        return found


def run_fleet(
    name: str, memory: FleetMemory, launches: Mapping[str, Callable[[], int]], as_json: bool, join: Callable[[], str]
) -> int:
    """Run the launchers of a fleet and print its results; the exit code.

    launches: what the launcher of each robot does, which prints its result and returns its exit code. join: makes one
    recording of those of the robots, and returns its line of the table.
    """
    call_process(LAUNCHER, name)
    run = FleetRun(name, memory)
    with never_waiting() as (printed, said), run.signals():
        for robot, launch in launches.items():
            run.start(robot, launch)
        run.watch()
        code = run.code if run.signal is None else 128 + run.signal
        cause, results, recording = run.cause() if code else "", run.results(), join()
        if as_json:
            robots = {robot: json.loads(text) if text.strip() else None for robot, text in results.items()}
            sys.stdout.write(json.dumps({"robots": robots, "cause": cause, "exit": code}) + "\n")
        else:
            sys.stdout.write("\n".join(text for text in results.values() if text))
        code = code or int(recording.startswith("in parts"))
        if recording:
            sys.stderr.write(f"servonode: {name}: recording: {recording}\n")
        if cause:
            sys.stderr.write(f"servonode: {name}: {cause}; all robots have stopped\n")
        return drain_output(printed, said, code, as_json)
