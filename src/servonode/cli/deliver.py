"""Output of a run for people: its live status line; at its end its files, one by one, the JSON object, the table."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TextIO

from servonode.bus import Status
from servonode.bus.durations import EXTRA
from servonode.bus.topology import CONTROLLER, GOAL_HELD, PLANT, TARGET
from servonode.cli.start_checks import PICTURES
from servonode.cli.terminal import linked, painted
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.nodes.fault_ladder import ESTOP, FINAL
from servonode.nodes.plant_time import PAUSED
from servonode.nodes.recording import Outcome, Recording
from servonode.plants.drivers.applied_inputs import CLAMPED
from servonode.record.run import Run
from servonode.views.run_view import reporting
from servonode.views.summary import summary_rows, unsafe_text

if TYPE_CHECKING:
    from servonode.record.bag import Bag
    from servonode.record.write import Drawn

    Drawing = Callable[[Bag, ClosedLoop], Iterable[Drawn]]

BAR = 24  # characters of the progress bar
TERMINAL_PERIOD_S, LOG_PERIOD_S = 0.2, 5.0


class StatusLine:
    """The live status line on stderr: rewritten in place on a terminal, repeated every few seconds in a log.

    Half of its attributes are what it must know of the run, the others what it showed last, and when.
    """

    def __init__(self, closed_loop: ClosedLoop, name: str, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.name = name
        self.duration = closed_loop.launch.duration_ns / 1e9
        self.units = {each.name: each.unit for each in closed_loop.residuals}
        self.waits = closed_loop.safety.on_fault == "wait"  # after a fault the run waits for a reset
        self.arms_itself = closed_loop.driver.simulated
        self.unsafe = unsafe_text(closed_loop)
        self.readonly = "READ ONLY" if closed_loop.readonly else ""
        self._last_reason = ""  # why the plant is not active, as of the last line
        self._terminal = self.stream.isatty()
        self._due = time.monotonic()
        self._begun: tuple[float, float] | None = None
        self._width = 0

    def __call__(self, status: Mapping[str, Status]) -> None:
        now = time.monotonic()
        if PLANT not in status:
            return
        reason = self._inactive_reason(status[PLANT])
        if now < self._due and reason == self._last_reason:
            return
        self._last_reason = reason
        self._due = now + (TERMINAL_PERIOD_S if self._terminal else LOG_PERIOD_S)
        text = self._text(status[PLANT], status.get(CONTROLLER), status.get(TARGET), now)
        if self._terminal:
            self.stream.write("\r" + painted(text.ljust(self._width), self.stream))
            self._width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def _text(self, plant: Status, controller: Status | None, target: Status | None, now: float) -> str:
        if self._begun is None:
            self._begun = (now, plant.t)
        passed, driven = now - self._begun[0], plant.t - self._begun[1]
        rate = plant.values.get("rate") or (driven / passed if passed > 0 else 0.0)
        filled = round(BAR * plant.t / self.duration)
        bar = f"[{'#' * filled}{'.' * (BAR - filled)}] " if self._terminal else ""
        parts = [f"{self.name} {bar}{plant.t:.1f}/{self.duration:g} s", *filter(None, [self.readonly, self.unsafe])]
        reason = self._inactive_reason(plant)
        if reason:
            return "  ".join([*parts, reason])
        parts += ["GOAL HELD"] if target and target.values.get(GOAL_HELD) else []
        parts += ["THE MACHINE CLAMPS ITS INPUTS"] if plant.values.get(f"{EXTRA}{CLAMPED}") else []
        parts.append(f"{rate:.3g}x")
        if plant.values.get("round_trip"):
            parts.append(f"round trip {plant.values['round_trip'] * 1e3:.2f} ms")
        if controller is not None:
            parts += [
                f"{n} {controller.values[n]:+.1e} {unit}" for n, unit in self.units.items() if n in controller.values
            ]
        return "  ".join(parts)

    def _inactive_reason(self, plant: Status) -> str:
        """Why the plant is not active, and what to do; empty if it is active."""
        if plant.values.get(PAUSED):  # first: a paused run in real time is not armed
            return f"PAUSED: servonode resume {self.name}"
        if plant.lifecycle == "inactive":
            if self.readonly:
                return ""
            if plant.values.get("armed"):
                return "armed, waiting for a command"
            if self.arms_itself and plant.t == 0.0:
                return "starting"
            return f"waiting to be armed: servonode arm {self.name}"
        if plant.lifecycle == "fault":
            stopped = bool(plant.values.get(ESTOP))
            held = plant.fault not in FINAL and (self.waits or stopped)
            remedy = f", held safe: servonode reset {'--estop ' if stopped else ''}{self.name}"
            return f"FAULT {plant.fault}" + (remedy if held else "")
        return "waiting for the machine" if plant.lifecycle == "unconfigured" else ""

    def close(self) -> None:
        """End the line."""
        if self._terminal and self._width:
            self.stream.write("\n")
            self.stream.flush()


def table(run: Run, name: str, interrupted: bool = False, stopped: str = "") -> str:
    """The table at the end of a run or simulation. stopped: who stopped the plant early."""
    rows = summary_rows(run, name, interrupted, stopped)
    return "\n".join(f"  {key:<17} {text}" if key else text for key, text in rows)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Output:
    """A file to be written: its label in the table, its path, and the function that writes it and returns its line.

    whole: it is not interrupted, for its data would be lost. lacking: what of the run is not in it, in words.
    """

    word: str
    file: Path
    make: Callable[[], str]
    whole: bool = False
    lacking: Sequence[str] = ()


class BrokenOff(KeyboardInterrupt):
    """Raised by a signal that asks the command to end; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """The signals that ask a command to end: raised as `BrokenOff` while `raises`, else only noted.

    A context manager. After one has come, further ones are ignored: the process is ending already.
    """

    def __init__(self) -> None:
        self.raises = True
        self.number: int | None = None  # of the first that was noted
        self._previous: list[tuple[int, Any]] = []

    def forget(self) -> None:
        """Clear what was noted: it has been dealt with."""
        self.number = None

    def _on(self, number: int, _: Any) -> None:
        self.number = self.number or number
        if self.raises:
            raise BrokenOff(number)

    def __enter__(self) -> Self:
        wanted = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]  # as nohup has it
        self._previous = [(number, signal.signal(number, self._on)) for number in wanted]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous:
            signal.signal(number, handler if self.number is None else signal.SIG_IGN)


@dataclass
class Delivered:
    """The result of the outputs: lines of the table, one for each failure, and the signal that interrupted them.

    unmade: the words of those of which nothing was made. shown: reports and movies that were made.
    """

    rows: list[str]
    failures: dict[str, str]
    signal: int | None = None
    unmade: list[str] = field(default_factory=list)
    shown: list[Path] = field(default_factory=list)

    def fail(self, output: Output, text: str) -> None:
        """Note why an output failed; a second one of its kind under a word of its own."""
        word = output.word if output.word not in self.failures else f"{output.word} {output.file}"
        self.failures[word] = f"{output.file}: {text}"

    def code(self, code: int) -> int:
        """The exit code of the command: `code` of the run if not 0, else that of the signal, else 1 after a failure."""
        if code:
            return code
        return 128 + self.signal if self.signal is not None else int(bool(self.failures))


def make(outputs: Sequence[Output], signals: Signals) -> Delivered:
    """Write each output; a failure does not stop the others.

    A signal that asks to end interrupts the output that is being written unless it is to be whole, and skips the later
    ones.
    """
    done = Delivered([], {}, unmade=[output.word for output in outputs])
    signals.forget()
    for output in outputs:
        if signals.number is not None:
            done.fail(output, "left out, for the command was broken off")
            continue
        try:
            signals.raises = not output.whole
            done.rows.append(f"  {output.word:<17} {output.make()}")
            done.unmade.remove(output.word)
            done.shown += [output.file] if output.word in ("report", "movie") else []
            if output.lacking:
                done.fail(output, "; ".join(output.lacking))
        except KeyboardInterrupt:
            done.fail(output, "broken off")
        except OSError as error:
            done.fail(output, f"cannot be written ({error.strerror or error})")
        except Exception as error:  # noqa: BLE001  (a drawing library may raise anything, and the rest is to be made)
            text = " ".join(str(error).split())
            done.fail(output, f"cannot be made ({type(error).__name__}: {text})")
        finally:
            signals.raises = False
    done.signal = signals.number
    return done


def outputs_of(
    outcome: Outcome,
    name: str,
    out: Path | None,
    reports: Sequence[Path],
    recording: Recording | None = None,
    drawing: "Sequence[Drawing]" = (),
) -> list[Output]:
    """The files of a run: rows, recording, reports.

    recording: of the nodes, if there were any. drawing: what draws into it for viewers.
    """
    run, found = outcome.run, list[Output]()
    if run is not None and out is not None:
        lacking = recording.lacking(rows=True) if recording else ()
        rows = partial(_write_rows, [*outcome.earlier, run], out)
        found.append(Output("data", out, rows, recording is not None, lacking))
    if recording is not None and recording.bag is not None:
        lacking = recording.lacking()
        bag = partial(_write_bag, outcome, recording, recording.bag, bool(lacking), drawing)
        found.append(Output("recording", recording.bag, bag, lacking=lacking))
    if run is not None:
        found += [Output("report", file, partial(_write_report, run, name, file)) for file in reports]
    return found


def _write_rows(runs: list[Run], file: Path) -> str:
    from servonode.record.run_rows import write_runs

    *earlier, _ = write_runs(runs, file)
    more = f"; earlier lives of the plant: {', '.join(map(str, earlier))}" if earlier else ""
    return f"{file} ({len(runs[-1].t)} rows){more}"


def _write_bag(outcome: Outcome, recording: Recording, file: Path, lacking: bool, drawing: "Sequence[Drawing]") -> str:
    from servonode.record.bag import bag_of_spool

    exit_code = outcome.exit_code or int(lacking)
    ending: dict[str, Any] = {"faults": outcome.faults, "ended": outcome.ending, "exit": exit_code}
    if run := outcome.run:
        ending |= {"stats": run.stats, "wall_s": run.wall_s}
    read = bag_of_spool(recording.recorded, file)
    drawn, without = _drawings(drawing, read, recording.closed_loop) if outcome.run else ([], "")
    return f"{file} ({recording.write_bag(ending, drawn)} messages{without})"


def _drawings(drawing: "Sequence[Drawing]", bag: "Bag", closed_loop: ClosedLoop) -> "tuple[list[Drawn], str]":
    """What viewers draw of a run; a few words of what cannot be made: it is no part of the data."""
    drawn, without = list["Drawn"](), ""
    for each in drawing:
        try:
            drawn += list(each(bag, closed_loop))
        except ServonodeError as error:
            without += f"; without drawings: {error}"
        except Exception as error:  # noqa: BLE001  (another package's view may raise anything, and the data is kept)
            without += f"; without drawings: {type(error).__name__}: {' '.join(str(error).split())}"
    return drawn, without


def _write_report(run: Run, name: str, file: Path) -> str:
    if file.suffix.lower() in PICTURES:
        from servonode.views.report import write_report

        write_report(run, name, file)
    elif write := reporting(file):
        write(run, name, file)
    return str(file)


ENDED = {"fault": "ended by a fault"}  # as people read it; other endings stand as they are


def say(
    outcome: Outcome,
    name: str,
    as_json: bool,
    code: int,
    done: Delivered,
    remedies: Mapping[str, str] = MappingProxyType({}),
    elsewhere: bool = False,
) -> None:
    """Print what failed, the JSON object, the table.

    remedies: by output, where its data is kept. elsewhere: whether the plant ran on another computer.
    """
    run, ending, stopped = outcome.run, outcome.ending, outcome.stopped
    for word, text in done.failures.items():
        _print(f"servonode: {text}{f'; {remedies[word]}' if word in remedies else ''}", sys.stderr)
    if run is None:
        for fault in outcome.faults:
            _print(f"servonode: {name}: {fault['name']}: {fault['text']}", sys.stderr)
        if stopped and not elsewhere:
            _print(f"servonode: {name}: stopped early, before its first state: {stopped}", sys.stderr)
    if as_json:
        found = {"faults": outcome.faults, "ended": ending, "stopped_by": stopped, "exit": code}
        _print(json.dumps((run.final() if run is not None else {}) | found), sys.stdout)
    if run is not None:
        head = table(run, name, outcome.interrupted, stopped)
    elif elsewhere:
        head = f"{name}: {ENDED.get(ending, ending)}; the plant ran on the other computer, whose record has its states"
    else:
        return
    stream = sys.stderr if as_json else sys.stdout
    links = [line for file in done.shown for line in linked(file, stream)]
    _print(painted("\n".join([head, *done.rows]), stream), stream)
    for line in links:
        _print(line, stream)


def _print(text: str, stream: Any) -> None:
    stream.write(text + "\n")
    stream.flush()
