"""What a robot's file says before any library reads it: which files belong to it, and that they are harmless.

XML is read by expat. A document type is refused, so that no entity is expanded, and so is what is too large.
"""

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from servonode.errors import StatementError

MOST_BYTES = 20_000_000  # of all files together
MOST_BODIES = 1000
MOST_NESTED = 200  # elements within one another
_ROOTS = {"robot": "urdf", "mujoco": "mjcf"}
_MULTIPLYING = ("replicate", "composite", "flexcomp")  # elements that stand for `count` of their kind


class RobotError(StatementError):
    """A robot's file that cannot be read or has no equations; the text names file and element."""


@dataclass
class FileText:
    """A robot's file: its format, it and all files that it includes, the largest speeds of a URDF's joints.

    unlimited: joints of a URDF whose effort or velocity is stated as zero, with that word.
    """

    format: str = ""  # "urdf" or "mjcf"
    files: list[Path] = field(default_factory=list)
    speeds: dict[str, float] = field(default_factory=dict)
    unlimited: list[tuple[str, str]] = field(default_factory=list)
    names: Counter[tuple[str, str]] = field(default_factory=Counter)
    n_bytes: int = 0
    n_bodies: int = 0


def scan(file: Path) -> FileText:
    """What a file and those that it includes say.

    Raises:
        RobotError: a file is missing or too large, is no XML, has a document type, lies outside of the robot's folder,
            or has too many bodies or two links or joints of one name.
    """
    found = FileText()
    folder, waiting = file.resolve().parent, [file]
    while waiting:
        each = waiting.pop()
        if each not in found.files:
            found.files.append(each)
            for name in _read(each, file, found):
                waiting.append((folder / name).resolve())
                if not waiting[-1].is_relative_to(folder):
                    text = f"includes {name!r}, which is outside of the folder {folder}; copy it into that folder"
                    raise RobotError(f"{each.name}: {text}")
    return found


def _read(file: Path, robot: Path, found: FileText) -> list[str]:
    """Read one file; the names that it includes."""
    try:
        found.n_bytes += file.stat().st_size
        data = file.read_bytes() if found.n_bytes <= MOST_BYTES else b""
    except OSError as error:
        text = f"there is no file {file} ({error.strerror})" if file == robot else f"includes {file.name}: "
        raise RobotError(text if file == robot else f"{robot.name}: {text}{error.strerror}") from None
    if found.n_bytes > MOST_BYTES:
        raise RobotError(f"{file.name}: has {found.n_bytes} bytes; at most {MOST_BYTES} are read, meshes not counted")
    reader = _Reader(file, found)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        text = f"is no XML ({expat.errors.messages[error.code]}); give a URDF or MJCF file"
        raise RobotError(f"{file.name} line {error.lineno}: {text}") from None
    return reader.includes


class _Reader:
    """The handlers of one file's elements."""

    def __init__(self, file: Path, found: FileText) -> None:
        self.file, self.found, self.includes = file, found, list[str]()
        self.stack: list[tuple[str, str, int]] = []  # tag, name, how often it stands for itself
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = lambda *_: self._refuse(
            "has a document type (<!DOCTYPE>), whose entities are not read; remove it"
        )
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = lambda _: self.stack.pop()

    def _refuse(self, text: str) -> NoReturn:
        raise RobotError(f"{self.file.name} line {self.parser.CurrentLineNumber}: {text}")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        found, name = self.found, attributes.get("name", "")
        if not self.stack and not found.format:
            found.format = _ROOTS.get(tag, "")
            if not found.format:
                self._refuse(f"begins with <{tag}>; a URDF begins with <robot>, an MJCF file with <mujoco>")
        if len(self.stack) == MOST_NESTED:
            self._refuse(f"<{tag}> stands within {MOST_NESTED} elements; at most so many are read")
        for word, value in attributes.items():
            if word != "name" and "nan" in value.lower().split():
                self._refuse(f'<{tag}> "{name}" has {word}="{value}"; give finite numbers')
        times = (self.stack[-1][2] if self.stack else 1) * self._count(tag, attributes)
        if tag in ("link", "body", *_MULTIPLYING):
            found.n_bodies += times
            if found.n_bodies > MOST_BODIES:
                self._refuse(f"has more than {MOST_BODIES} bodies; at most so many are read")
        if found.format == "urdf":
            self._urdf(tag, name, attributes)
        elif tag == "include" or (tag == "model" and "file" in attributes):
            self.includes.append(attributes.get("file", ""))
        self.stack.append((tag, name, times))

    def _count(self, tag: str, attributes: dict[str, str]) -> int:
        try:
            return prod(int(each) for each in attributes.get("count", "").split()) if tag in _MULTIPLYING else 1
        except ValueError:
            return 1  # MuJoCo says what is wrong with it

    def _urdf(self, tag: str, name: str, attributes: dict[str, str]) -> None:
        if tag.startswith("xacro:"):
            ready = self.file.name.removesuffix(".xacro").removesuffix(".urdf")
            remedy = f"give what `xacro {self.file.name} > {ready}_read.urdf` writes"
            self._refuse(f"<{tag}> is of xacro, which is not read; {remedy}")
        if tag in ("link", "joint") and len(self.stack) == 1:
            self.found.names[tag, name] += 1
            if self.found.names[tag, name] > 1:
                self._refuse(f"<{tag} name={name!r}>: the name is used twice; give each {tag} its own")
        if tag == "limit" and self.stack[-1][0] == "joint":
            joint = self.stack[-1][1]
            for word in [each for each in ("effort", "velocity") if each in attributes]:
                most = self._size(word, attributes[word])
                self.found.speeds |= {joint: most} if word == "velocity" else {}
                self.found.unlimited += [(joint, word)] if most == 0 else []

    def _size(self, word: str, text: str) -> float:
        try:
            size = float(text)
        except ValueError:
            self._refuse(f"{word}={text!r} is not a number; correct it")
        if not size >= 0:
            self._refuse(f"{word}={text!r} is negative, or no number; give its largest magnitude")
        return size
