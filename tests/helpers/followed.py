"""A page of the docs, followed word for word: its files are written, its commands typed, its output compared.

What a page is made of:

* A block below a file name in bold is a file; it is written when the page comes to it.
* A `sh` block is typed, a command a line (a heredoc, or a line that ends in a backslash, goes on). A `text` block
  right after it is what the commands print; a line `...` stands for lines left out.
* **Terminal 2** in bold above a `sh` block says where it is typed; without such a line it is terminal 1.
* A `text` block below **Terminal 1** that follows no command of its own is what the command that still runs there goes
  on to print; `^C` or `^\\` as its first line is that key. Such a command is not waited for until the page has shown
  the last of it.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
FENCE, CAPTION, GAP = "```", re.compile(r"\*\*([\w.]+)\*\*"), "..."
TERMINAL = re.compile(r"\*\*Terminal (\d)\*\*")
HEREDOC = re.compile(r"<<'(\w+)'")
KEYS = {"^C": signal.SIGINT, "^\\": signal.SIGQUIT}
FAULT = "  fault      "  # begins the line of a run's end that tells its fault
LIMIT_S = 150.0  # for a command, and for what a running one is to print
POLL_S = 0.02
SERVONODE = f'exec {sys.executable} -m servonode.cli.main "$@"'
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?")
ONCE = re.compile(r"servonode: deriving and compiling ")  # where nothing is in the cache yet
PROGRESS = re.compile(r"^\S+ \d+\.\d/[\d.]+ s  ")  # where a run has got to
TIMED = (
    "  timing ",
    "  plant ",
    "  controller ",
    "  target ",
    "  command time ",
)  # rows whose numbers tell of the computer
RESIDUALS, LATE_RESIDUAL = "  largest residual ", 1e-3  # what a late command adds, in the residual's unit
COUNTED = ("  rate ", "  missed ")  # rows that say more on a slow one
VERDICT_NO = re.compile(r"verdict +no(:|$)")
WALL = re.compile(r" in \d+\.\d\d s$")
MOMENT = re.compile(
    r"process \d+|t = [\d.]+ s|after [\d.]+ s|[\d.]+ s after the last input|acts: [-\d.e, ]+"
)  # where a page has people at terminals


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line in bold above it (a file's name or a terminal), its section."""

    language: str
    text: str
    above: str
    section: int

    @property
    def name(self) -> str | None:
        """The file that this block is."""
        caption = CAPTION.fullmatch(self.above)
        return caption and caption[1]

    @property
    def terminal(self) -> int | None:
        """The terminal that the page names."""
        caption = TERMINAL.fullmatch(self.above)
        return int(caption[1]) if caption else None

    @property
    def is_printed(self) -> bool:
        """Whether it is what the command above it prints."""
        return self.language == "text" and not self.name and not self.terminal


@dataclass(frozen=True)
class Step:
    """What is done at one terminal, and what the page prints below it (None: nothing).

    No commands: the running one is watched, after a key has been pressed if there is one. goes_on: the last command is
    still running when the page does the next step. live: other terminals matter too, so moments and processes do.
    """

    commands: tuple[str, ...]
    printed: str | None
    terminal: int = 1
    key: str = ""
    goes_on: bool = False
    live: bool = False

    @property
    def code(self) -> int:
        """The exit code of the last command that fits what is printed."""
        last = self.lines[-1] if self.lines else ""
        if len(self.lines) == 1 and last.startswith("servonode: "):
            return 2
        if last.startswith("exit code "):  # the command after it prints that of the one before, and ends with 0
            return 0
        return int(bool(VERDICT_NO.match(last)) or any(line.startswith(FAULT) for line in self.lines))

    @property
    def lines(self) -> list[str]:
        """What is printed, without that something is compiled once: nobody knows what a cache has."""
        return [line for line in (self.printed or "").splitlines() if not ONCE.match(line)]

    @property
    def rough(self) -> bool:
        """Whether numbers are those of a run in real time."""
        return self.live or any(command.startswith("servonode run") for command in self.commands)

    @property
    def late(self) -> bool:
        """Whether commands of a run may come late."""
        return any(each.startswith("servonode run") and "run.mode=lockstep" not in each for each in self.commands)


@dataclass(frozen=True)
class Done:
    """What a step's commands wrote to the terminal, and their exit codes (of those that have ended)."""

    text: str
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Written:
    """A file of the page."""

    name: str
    text: str


class Page:
    """The files, pieces of files and steps of a page.

    installs: the commands of sections up to this one are not typed; 0 is what stands above the first section.
    replaced: texts of the page that are others in the test, such as the name of a device.
    """

    def __init__(self, name: str, installs: int = 0, replaced: Mapping[str, str] | None = None) -> None:
        self.path, self._replaced = DOCS / name, dict(replaced or {})
        self._blocks = tuple(self._read())
        self.pieces = [block.text for block in self._blocks if block.language == "python" and not block.name]
        self._acts = tuple(self._read_acts(installs))
        self.steps = tuple(act for act in self._acts if isinstance(act, Step))
        self.files = {act.name: act.text for act in self._acts if isinstance(act, Written)}

    def _read(self) -> Iterator[Block]:
        text = self.path.read_text("utf-8")
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        lines = iter(text.splitlines())
        above, section = "", 0
        for line in lines:
            if line.startswith("## "):
                section += 1
            if line.startswith(FENCE):
                content = "\n".join(takewhile(lambda each: each != FENCE, lines))
                yield Block(line.removeprefix(FENCE), content, above, section)
            above = line or above

    def _read_acts(self, installs: int) -> Iterator[Step | Written]:
        """All that the page does, in its order."""
        many = any(block.terminal for block in self._blocks)
        blocks = [block for block in self._blocks if block.name or block.section > installs]
        for block, later in ((block, blocks[i + 1 :]) for i, block in enumerate(blocks)):
            terminal = block.terminal or 1
            if block.name:
                yield Written(block.name, block.text + "\n")
            elif block.language == "sh":
                printed = later[0].text if later and later[0].is_printed else None
                yield Step(commands_of(block.text), printed, terminal, "", _goes_on(later, terminal), many)
            elif block.language == "text" and block.terminal:
                first, _, rest = block.text.partition("\n")
                key, printed = (first, rest or None) if first in KEYS else ("", block.text)
                yield Step((), printed, terminal, key, _goes_on(later, terminal), many)

    def follow(
        self, folder: Path, looks: Mapping[str, Callable[[Path], None]] = {}, servonode: str = SERVONODE
    ) -> None:
        """Do all that the page does, in the reader's folder, and check each step.

        looks: done after the step whose last command begins so, with the file that its terminal writes.
        servonode: the shell script of that name.

        Raises:
            AssertionError: a step does not do what the page prints, or a command is still running at its end.
        """
        with tempfile.TemporaryDirectory(prefix="servonode-page-", ignore_cleanup_errors=True) as hidden:
            programs, runtime = Path(hidden, "programs"), Path(hidden, "runtime")
            for each in (programs, runtime):
                each.mkdir(mode=0o700)  # nobody else's runs are seen or stopped
            for name, script in (("servonode", servonode), ("python", f'exec {sys.executable} "$@"')):
                (programs / name).write_text(f"#!/bin/sh\n{script}\n")
                (programs / name).chmod(0o755)
            environment = {
                **os.environ,
                "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                "OMP_NUM_THREADS": "1",
                "SERVONODE_RUNTIME_DIR": str(runtime),
            }
            desk = Desk(folder, programs, environment)
            try:
                self._follow(desk, dict(looks))
            except AssertionError as error:
                raise AssertionError(f"{desk.last}: {error}") from None
            finally:
                desk.close()

    def _follow(self, desk: "Desk", looks: dict[str, Callable[[Path], None]]) -> None:
        for act in self._acts:
            if isinstance(act, Written):
                desk.write(act)
                continue
            check(act, desk.do(act))
            for word in [each for each in looks if act.commands and act.commands[-1].startswith(each)]:
                looks.pop(word)(desk.screen(act))
        assert not looks, f"no step for {list(looks)}"


def commands_of(text: str) -> tuple[str, ...]:
    """The commands of a `sh` block, with the lines of their heredocs and those after a backslash."""
    commands: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        heredoc = HEREDOC.search(line)
        while line.endswith("\\"):
            line = f"{line}\n{next(lines)}"
        if heredoc:
            end = heredoc[1]
            line = "\n".join((line, *takewhile(lambda each: each != end, lines), end))  # noqa: B023  (used at once)
        commands.append(line)
    return tuple(commands)


def _goes_on(later: Sequence[Block], terminal: int) -> bool:
    """Whether the page's next word on this terminal is what its command goes on to print."""
    for block in later:
        if block.language == "sh" and (block.terminal or 1) == terminal:
            return False
        if block.language == "text" and block.terminal == terminal:
            return True
    return False


class Terminal:
    """A shell in the reader's folder: one command at a time, what it writes in a file."""

    def __init__(self, folder: Path, output: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._output, self._environment = folder, output, dict(environment)
        self._popen: subprocess.Popen[bytes] | None = None
        self._read = 0  # lines of the running command that the page has shown
        output.touch()

    def type_in(self, command: str) -> None:
        """Start a command in a process group of its own; the keys interrupt it, and not the shell."""
        self._read = 0
        with self._output.open("wb") as output:
            self._popen = subprocess.Popen(
                ["sh", "-c", f"trap : INT QUIT\n{command}"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def is_busy(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def press(self, key: str) -> None:
        """Press a key that interrupts the command."""
        assert self.is_busy, f"{key} is pressed, but nothing runs here any more:\n{self.text}"
        assert self._popen is not None
        os.killpg(self._popen.pid, KEYS[key])

    @property
    def text(self) -> str:
        """All that the command has written since the page looked last."""
        return "\n".join(self._output.read_text("utf-8", "replace").splitlines()[self._read :])

    def wait(self) -> int:
        """Until the command has ended; its exit code."""
        assert self._popen is not None
        with suppress(subprocess.TimeoutExpired):
            return self._popen.wait(LIMIT_S)
        raise AssertionError(f"it still runs after {LIMIT_S:g} s; it has written:\n{self.text}")

    def wait_for(self, step: Step) -> None:
        """Until the command has written what the page shows, or has ended; what came until then has been read."""
        limit = time.monotonic() + LIMIT_S
        while (lacks := lacking(step, self.text))[0] is not None and self.is_busy and time.monotonic() < limit:
            time.sleep(POLL_S)
        self._shown = lacks[1]

    def turn_page(self) -> None:
        """What the last step has shown is not looked at again."""
        self._read += self._shown

    def close(self) -> None:
        """End what still runs."""
        if self._popen is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait()


class Desk:
    """The terminals of a reader."""

    def __init__(self, folder: Path, programs: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._programs = folder, programs
        self.last: Step | None = None  # what was done last
        self._terminals = {n: Terminal(folder, programs / f"terminal_{n}", environment) for n in range(1, 5)}

    def screen(self, step: Step) -> Path:
        """The file that the terminal of a step writes."""
        return self._programs / f"terminal_{step.terminal}"

    def write(self, file: Written) -> None:
        """Write a file of the page."""
        (self._folder / file.name).write_text(file.text, "utf-8")

    def do(self, step: Step) -> Done:
        """Type the step's commands, or watch the one that runs."""
        terminal, self.last = self._terminals[step.terminal], step
        if not step.commands:
            if step.key:
                terminal.press(step.key)
            return self._watched(terminal, step, ())
        texts, codes = [], []
        for command in step.commands[:-1]:
            terminal.type_in(command)
            codes.append(terminal.wait())
            texts.append(terminal.text + "\n" if terminal.text else "")
        terminal.type_in(step.commands[-1])
        done = self._watched(terminal, step, tuple(codes))
        return Done("".join(texts) + done.text, done.codes)

    @staticmethod
    def _watched(terminal: Terminal, step: Step, codes: tuple[int, ...]) -> Done:
        if not step.goes_on:
            codes = (*codes, terminal.wait())
            return Done(terminal.text, codes)
        terminal.wait_for(step)
        done = Done(terminal.text, codes)
        terminal.turn_page()
        return done

    def close(self) -> None:
        """Every command must have ended."""
        busy = [n for n, terminal in self._terminals.items() if terminal.is_busy]
        for terminal in self._terminals.values():
            terminal.close()
        assert not busy or sys.exc_info()[0], f"at the end of the page a command still runs in terminal {busy}"


def agree(printed: str, actual: str, rough: bool, live: bool = False, late: bool = False) -> bool:
    """Whether two lines are the same, numbers to the printed digits (`rough`: within a tenth), times apart.

    live: moments and process numbers are apart too, and counts agree within a tenth. late: commands may have come
    late, by which residuals are larger.
    """
    if printed.startswith(COUNTED):
        return printed.split()[0] == actual.split()[0]
    if printed.startswith(TIMED) or PROGRESS.match(printed):
        return _words(printed) == _words(actual)
    printed, actual = WALL.sub("", printed), WALL.sub("", actual)
    if live:
        printed, actual = MOMENT.sub("", printed), MOMENT.sub("", actual)
    if NUMBER.sub("#", printed) != NUMBER.sub("#", actual):
        return False
    for shown, found in zip(NUMBER.findall(printed), NUMBER.findall(actual), strict=True):
        last_digit = 10.0 ** int(Decimal(shown).as_tuple().exponent)
        tolerance = max(0.1 * abs(float(shown)) if rough else 1.01 * min(last_digit, 1.0), 1e-6)
        if late and printed.startswith(RESIDUALS):
            tolerance = max(tolerance, LATE_RESIDUAL)
        if "." not in shown and "e" not in shown:  # a whole number: a line, an index, a setting; live: a count as well
            tolerance = 0.1 * abs(float(shown)) if live else 0.0
        if abs(float(shown) - float(found)) > tolerance:
            return False
    return True


def _words(line: str) -> list[str]:
    return NUMBER.sub("#", line).split()


def _match(passages: Sequence[str], found: Sequence[str], step: Step) -> tuple[str | None, int]:
    """The first passage that is not there (None: all are), and the line after the last one that is.

    The first passage stands at the beginning, the last one at the end; an empty one may be anywhere.
    """
    start, last = 0, len(passages) - 1
    for i, passage in enumerate(passages):
        lines = passage.splitlines()
        if not lines:
            continue
        end = len(found) - len(lines)
        places = [each for each in range(start, end + 1) if (i > 0 or each == 0) and (i < last or each == end)]
        place = next((each for each in places if _fits(lines, found[each : each + len(lines)], step)), None)
        if place is None:
            return passage, start
        start = place + len(lines)
    return None, start


def _fits(lines: Sequence[str], found: Sequence[str], step: Step) -> bool:
    return all(agree(*pair, step.rough, step.live, step.late) for pair in zip(lines, found, strict=True))


def lacking(step: Step, actual: str) -> tuple[str | None, int]:
    """The first passage of the printed text (`...` parts them) that the actual text lacks (None: it is all there).

    And the number of lines that the page has shown then. What the page shows of a running command may stand anywhere.
    Lines that say where a run has got to, or that something is compiled once, may be left out everywhere.
    """
    printed = "\n".join((*[GAP] * (not step.commands), *(step.lines or [GAP]), *[GAP] * step.goes_on))
    lines = actual.splitlines()
    progress = any(map(PROGRESS.match, step.lines))
    kept = [n for n, line in enumerate(lines) if not ONCE.match(line) and (progress or not PROGRESS.match(line))]
    passages = re.split(rf"^{re.escape(GAP)}$\n?", printed, flags=re.MULTILINE)
    lacks, end = _match(passages, [lines[n] for n in kept], step)
    return lacks, kept[end - 1] + 1 if end else 0


def check(step: Step, done: Done) -> None:
    """Assert that a step did what its page prints."""
    ended = () if step.goes_on else (step.code,)
    if not step.key:  # one that is interrupted tells of it by its code
        assert done.codes == (*[0] * (len(step.commands) - 1), *ended), done.text
    assert "Traceback" not in done.text
    lacks, _ = lacking(step, done.text)
    assert lacks is None, f"not printed:\n{lacks}\nbut:\n{done.text}"
