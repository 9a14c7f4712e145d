"""Output of a finished run: its files, one by one, then the JSON object and the table."""

import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from servonode.cli.console import table
from servonode.cli.start_checks import PAGES
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.nodes.collect import Outcome
from servonode.nodes.recording import Recording
from servonode.record.run import Run

if TYPE_CHECKING:
    from servonode.record.bag import Bag
    from servonode.record.write import Drawn

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

    unmade: the words of those of which nothing was made.
    """

    rows: list[str]
    failures: dict[str, str]
    signal: int | None = None
    unmade: list[str] = field(default_factory=list)

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
    outcome: Outcome, name: str, out: Path | None, reports: Sequence[Path], recording: Recording | None = None
) -> list[Output]:
    """The files of a run: rows, recording, reports; `recording`: of the nodes, if there were any."""
    run, found = outcome.run, list[Output]()
    if run is not None and out is not None:
        lacking = recording.lacking(rows=True) if recording else ()
        rows = partial(_write_rows, [*outcome.earlier, run], out)
        found.append(Output("data", out, rows, recording is not None, lacking))
    if recording is not None and recording.bag is not None:
        lacking = recording.lacking()
        bag = partial(_write_bag, outcome, recording, recording.bag, bool(lacking))
        found.append(Output("recording", recording.bag, bag, lacking=lacking))
    if run is not None:
        found += [Output("report", file, partial(_write_report, run, name, file)) for file in reports]
    return found


def _write_rows(runs: list[Run], file: Path) -> str:
    from servonode.record.run_rows import write_runs

    *earlier, _ = write_runs(runs, file)
    more = f"; earlier lives of the plant: {', '.join(map(str, earlier))}" if earlier else ""
    return f"{file} ({len(runs[-1].t)} rows){more}"


def _write_bag(outcome: Outcome, recording: Recording, file: Path, lacking: bool) -> str:
    from servonode.record.bag import bag_of_spool

    exit_code = outcome.exit_code or int(lacking)
    ending: dict[str, Any] = {"faults": outcome.faults, "ended": outcome.ending, "exit": exit_code}
    if run := outcome.run:
        ending |= {"stats": run.stats, "wall_s": run.wall_s}
    read = bag_of_spool(recording.recorded, file)
    drawn, without = _drawings(read, recording.closed_loop) if outcome.run else ([], "")
    return f"{file} ({recording.write_bag(ending, drawn)} messages{without})"


def _drawings(bag: "Bag", closed_loop: ClosedLoop) -> "tuple[list[Drawn], str]":
    """What viewers draw of a run; a few words if it cannot be made: it is no part of the data."""
    from servonode.neighbours.drawings import drawings

    try:
        return list(drawings(bag, closed_loop)), ""
    except ServonodeError as error:
        return [], f"; without drawings: {error}"


def _write_report(run: Run, name: str, file: Path) -> str:
    if file.suffix.lower() in PAGES:
        from servonode.web.html_report import write_html_report as write
    else:
        from servonode.views.report import write_report as write
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
    _print("\n".join([head, *done.rows]), sys.stderr if as_json else sys.stdout)


def _print(text: str, stream: Any) -> None:
    stream.write(text + "\n")
    stream.flush()
