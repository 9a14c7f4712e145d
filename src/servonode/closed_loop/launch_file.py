"""Reads a launch file (TOML) into the structs of `launch_keys.py`.

A file that does not fit gives one LaunchError with file, section and key; no malformed input gives anything else.
"""

import csv
import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct, inspect
from msgspec.structs import FieldInfo, asdict, fields, replace

from servonode.closed_loop.added_sections import added_names, defaults, find_section, section_of
from servonode.closed_loop.key_table import part
from servonode.closed_loop.launch_error import LaunchError as LaunchError  # part of what is read here
from servonode.closed_loop.launch_error import choices, naming_file, stated_in, unknown
from servonode.closed_loop.launch_keys import LARGEST, Goal, LaunchFile, Sections, Times
from servonode.definitions.references import ending_of
from servonode.errors import StatementError, did_you_mean
from servonode.extensions import REMEDY
from servonode.mechanics.expression import constants, in_radians
from servonode.plants.drivers import driver_names, our_names
from servonode.plants.keys import AddedSection

MAX_BYTES = 100_000
MOST_DOTS = 10_000  # in a line: the time to read a key grows with the square of its parts
MOST_STEPS = 10**10  # of a run: four months at 1 kHz
HAS_PARAMETERS = re.compile(r"(robots\.\w+\.)?(plant|controller)")
GOAL_SPEED, MOST_SPEED = "goal.speed", 1e6  # the key of what only a variation has
S = TypeVar("S", bound=Struct)
MOST_POINTS = 10_000
LONGEST_LINE = 100_000  # characters


def read_launch(file: str | Path, overrides: Sequence[str] = ()) -> LaunchFile:
    """The launch file at a path, or the packaged one of that bare name, after `overrides` ("key.sub=value").

    A robot's file stands for a launch file of 1 s with this machine and no law.
    Raises LaunchError, whatever the file and the overrides hold; ExtensionError where a package that adds a section to
    it is broken; and nothing else.
    """
    reader = _Reader(str(file))
    return reader.launch(*_overridden(reader, file, overrides))


def stated_table(file: str | Path, overrides: Sequence[str] = ()) -> tuple[Path, dict[str, Any]]:
    """The path of a launch file and its table, after `overrides`; raises as `read_launch`."""
    return _overridden(_Reader(str(file)), file, overrides)


def _overridden(reader: "_Reader", file: str | Path, overrides: Sequence[str]) -> tuple[Path, dict[str, Any]]:
    path = launch_path(file)
    alone = ending_of(path.name) != ""  # a robot's file itself, without a law
    table = {"run": {"duration": 1.0}, "plant": {"machine": path.name}} if alone else _load(str(file), path)
    return path, reader.overridden(table, overrides)


def numbers_in(file: str | Path) -> dict[str, float]:
    """The numbers in a TOML file by dotted key, as `servonode param dump` writes them.

    Raises:
        LaunchError: it cannot be read, or holds what is no number.
    """
    found = dict(_leaves(with_joined_names(str(file), _load(str(file), Path(file)))))
    for key, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            section, _, name = key.rpartition(".")
            raise LaunchError(file, section, name, f"{_shown(value)} is not a number; give one")
    return found


def _leaves(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested tables and lists by dotted key."""
    for name, value in table.items():
        inner = dict(zip(map(str, range(len(value))), value, strict=True)) if isinstance(value, list) else value
        if isinstance(inner, dict):
            yield from _leaves(inner, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def launch_path(file: str | Path) -> Path:
    """The path of the packaged launch file of this bare name, else the path that was given."""
    return _packaged_paths().get(str(file), Path(file))


def packaged(robots: bool = False) -> dict[str, str]:
    """The bare name of each packaged launch file with its first comment line, by name.

    robots: those of several robots, and no others.
    """
    found = {name: path for name, path in _packaged_paths().items() if (b"\n[robots." in path.read_bytes()) == robots}
    return {name: _first_comment(path) for name, path in found.items()}


def _packaged_paths() -> dict[str, Path]:
    found = (Path(str(entry)) for entry in files("servonode.launch").iterdir())
    return {path.stem: path for path in sorted(found) if path.suffix == ".toml"}


def _first_comment(path: Path) -> str:
    line = path.read_text("utf-8", "replace").partition("\n")[0]
    return line.lstrip("# ").rstrip() if line.startswith("#") else ""


def _load(file: str, path: Path) -> dict[str, Any]:
    """The TOML table of a file, read whole."""
    content = _read(file, path)
    dotted = next((i for i, line in enumerate(content.splitlines(), 1) if line.count(".") > MOST_DOTS), 0)
    if dotted:
        raise LaunchError(file, None, None, f"line {dotted} has more than {MOST_DOTS} dots; write shorter keys")
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        last = content.count("\n") + 1
        problem = str(error).replace("at end of document", f"at line {last}, the last")
        text = f"bad TOML: {problem}; write key = value lines below [section] lines, with texts in quotes"
    except RecursionError:
        text = "the brackets are nested too deeply; use fewer"
    except ValueError:
        text = "an integer has thousands of digits; write a decimal such as 1e18"
    raise LaunchError(file, None, None, text)


def _read(file: str, path: Path) -> str:
    """The text of a file."""
    try:
        data = _bytes(path)
        if len(data) <= MAX_BYTES:
            return data.decode("utf-8-sig")
        text = "longer than 100 kB; give the path of a TOML file"
    except _NotRegular:
        text = "a pipe or a device, not a file; give the path of a TOML file"
    except FileNotFoundError:
        near = did_you_mean(path.stem, _packaged_paths(), most=3)
        text = f"no such file; {near}give the path of a TOML file, or a name that servonode list launch shows"
    except IsADirectoryError:
        text = "a directory; give the path of a TOML file in it"
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        text = f"not UTF-8 at line {line}; save it as UTF-8"
    except (OSError, ValueError) as error:
        text = f"cannot be read ({getattr(error, 'strerror', None) or error}); give the path of a TOML file"
    raise LaunchError(file, None, None, text)


class _NotRegular(Exception):
    """Neither a file nor a folder: what may never end, or wait for a writer."""


def _bytes(path: Path) -> bytes:
    """The first bytes of a regular file, MAX_BYTES and one. Raises _NotRegular, without opening it, or OSError."""
    if not (path.is_file() or path.is_dir()) and path.exists():
        raise _NotRegular
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):  # another one meanwhile
            raise _NotRegular
        return stream.read(MAX_BYTES + 1)


def launch_of_table(
    table: Mapping[str, Any],
    overrides: Sequence[str] = (),
    name: str = "launch",
    path: Path | None = None,
    file: str | None = None,
) -> LaunchFile:
    """The launch file of nested mappings; raises as `read_launch`.

    path: where it stands (default: in the working folder). file: how its user names it.
    """
    reader = _Reader(file or f"<{name}>")
    return reader.launch(path or Path.cwd() / f"{name}.toml", reader.overridden(_copied(table), overrides))


def table_of(launch: LaunchFile) -> dict[str, Any]:
    """All keys of a launch file as nested mappings, defaults included, of which `launch_of_table` makes it again."""
    sections = {name: msgspec.to_builtins(getattr(launch, name)) for name in Sections.__struct_fields__}
    for name, stated in launch.more.items():
        above, _, last = name.rpartition(".")
        (sections[above] if above else sections)[last] = msgspec.to_builtins(stated)
    given: dict[str, Any] = _given(sections)
    return given


def _given(table: dict[str, Any]) -> dict[str, Any]:
    """The table without what is None, which TOML cannot say."""
    return {name: _stated(value) for name, value in table.items() if value is not None}


def _stated(value: Any) -> Any:
    """A value, the tables in it without what is None."""
    if isinstance(value, list):
        return [_stated(each) for each in value]
    return _given(value) if isinstance(value, dict) else value


def with_step(launch: LaunchFile, step: float) -> LaunchFile:
    """The launch file with another plant step [s].

    Raises:
        LaunchError: it does not divide the duration or the period.
    """
    changed = replace(launch, plant=replace(launch.plant, step=step))
    return replace(changed, times=_Reader(launch.file).times(changed, step))


def with_section(launch: LaunchFile, name: str, given: Mapping[str, Any]) -> LaunchFile:
    """The launch file with these keys of an added section, such as `sweep`, in place of its own.

    Raises:
        LaunchError: a value cannot stand there.
    """
    kind = find_section(name)
    assert kind is not None  # whoever asks adds it
    stated = _given(msgspec.to_builtins(launch.more[name])) if name in launch.more else {}
    found = _Reader(launch.file).added(kind, name, stated | _copied(given))
    return replace(launch, more={**launch.more, name: found})


def with_values(launch: LaunchFile, values: Mapping[str, Any]) -> LaunchFile:
    """The launch file with other values by dotted key, such as "plant.initial.phi" or "controller.gains.K0.0.1".

    "goal.speed" is the speed of the goal's time. A table that states no such entry gets it.

    Raises:
        LaunchError: there is no such key, or a value cannot stand there.
    """
    reader, changed = _Reader(launch.file), launch
    for key, value in values.items():
        if key == GOAL_SPEED:
            changed = replace(changed, goal_speed=reader.goal_speed(value))
        elif (added := section_of(joined := joined_key(key))) is not None:
            changed = reader.replaced_in_added(changed, *added, joined, value)
        else:
            changed = reader.replaced(changed, "", joined.split("."), value)
    if changed.target is not launch.target:
        changed = replace(changed, target=_with_points(launch.file, launch.path, changed.target))
    times = reader.times(changed, changed.plant.step)
    return changed if times == launch.times else replace(changed, times=times)


def _copied(table: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): _copied(value) if isinstance(value, Mapping) else plain(value) for key, value in table.items()}


def plain(value: Any) -> Any:
    """Numbers, texts and lists of Python, from those of numpy and sympy."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "xreplace") and not isinstance(value, type):
        from servonode.mechanics.expression_text import text_of  # sympy, which made the value, is there

        return text_of(value)
    convert = getattr(value, "tolist", None)
    return convert() if callable(convert) else value


def _plainly(value: object) -> object:
    """The same of a table too."""
    return _copied(value) if isinstance(value, Mapping) else plain(value)


def _dotted(section: str, name: str) -> str:
    return f"{section}.{name}" if section else name


class _Reader:
    """Turns the table of one file into structs; knows which keys came from the command line."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.options: list[str] = []
        self.more: dict[str, AddedSection] = {}  # what is stated in added sections, by name

    def overridden(self, table: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
        """The table after these overrides, "key.sub=value"."""
        table = with_joined_names(self.file, table)
        for text in overrides:
            self._override(table, text)
            table = with_joined_names(self.file, table)
        return table

    def _override(self, table: dict[str, Any], text: str) -> None:
        key, equals, raw = text.partition("=")
        option = joined_key(".".join(name.strip() for name in key.split(".")))
        names = option.split(".")
        several = option in (known := _fields(Sections)) and part(known[option].type, list) is not None
        if not equals or not all(names) or (len(names) < 2 and not several):
            problem = "not SECTION.KEY=VALUE; write for example --set run.duration=10"
            raise LaunchError(self.file, None, None, problem, option)
        for depth, name in enumerate(names[:-1], 1):
            inner = table.setdefault(name, {})
            if not isinstance(inner, dict):
                problem = f"{'.'.join(names[:depth])} is not a table in the file; set it as a whole"
                raise LaunchError(self.file, None, None, problem, option)
            table = inner
        table[names[-1]] = _toml_value(raw)
        self.options.append(option)

    def launch(self, path: Path, table: dict[str, Any]) -> LaunchFile:
        """The launch file of a table, with its times in nanoseconds."""
        if "robots" in table:
            text = "servonode run, simulate, check and show take several robots; give this the launch file of one robot"
            raise self._error("robots", None, text)
        self.more = {}
        parts = self._struct(Sections, "", with_joined_names(self.file, table))
        controller = parts.controller
        if controller and controller.program is None and not controller.residuals and not controller.goal:
            text = 'missing; name a program, or give residuals = {speed = "V - 0.4"} or a goal of a frame instead'
            raise self._error("controller", "program", text)
        for name in ("residuals", "goal", "posture"):
            if controller and controller.program is not None and getattr(controller, name):
                raise self._error("controller", name, f"there are both a program and {name}; give only one of them")
        times = self.times(parts, parts.plant.step)
        stated = asdict(parts) | {"target": _with_points(self.file, path, parts.target)}
        return LaunchFile(**stated, path=path, file=self.file, name=path.stem, times=times, more=self.more)

    def replaced(self, of: S, section: str, names: Sequence[str], value: object) -> S:
        """The struct of a section with another value at the key that these names lead to."""
        known = _fields(type(of) if section else Sections)
        name, *inner = names
        if name not in known or not (section or inner):
            raise self._unknown_key(section, name, {} if inner else value, [*known, *added_names(section)])
        old, inside = getattr(of, name), _dotted(section, name)
        if isinstance(old, Struct) and inner:
            return replace(of, **{name: self.replaced(old, inside, inner, value)})
        if inner and old is None and part(known[name].type, dict) is None:
            raise self._error(inside, None, "the launch file has no such section, which cannot vary; write it")
        return replace(of, **{name: self._value(section, known[name], self._placed(inside, old, inner, value))})

    def replaced_in_added(
        self, launch: LaunchFile, section: str, kind: type[AddedSection], key: str, value: object
    ) -> LaunchFile:
        """The launch file with another value at a key of an added section, or in place of the section."""
        above, names = section.rpartition(".")[0], key.removeprefix(section).split(".")[1:]
        old = launch.more.get(section) or defaults(kind)
        if old is None or (above and getattr(launch, above) is None):
            raise self._error(section, None, "the launch file has no such section, which cannot vary; write it")
        with self._own_checks(kind, section):
            new = self.replaced(old, section, names, value) if names else self.added(kind, section, _plainly(value))
        return replace(launch, more={**launch.more, section: new})

    def _placed(self, inside: str, old: object, names: Sequence[str], value: object) -> object:
        """The table or list `old`, as TOML has it, with another value at the entry that these names lead to."""
        if not names:
            return _plainly(value)
        name, *inner = names
        table = msgspec.to_builtins({} if old is None else old)
        if isinstance(table, list) and name.isdecimal() and int(name) < len(table):
            at = int(name)
            return [*table[:at], self._placed(f"{inside}.{name}", table[at], inner, value), *table[at + 1 :]]
        if not isinstance(table, dict):
            text = f"{_shown(table)} has no entry {name}; state a table or a list of numbers, or vary it as a whole"
            raise self._error(inside, None, text)
        table = {key: each for key, each in table.items() if each is not None}
        return table | {name: self._placed(f"{inside}.{name}", table.get(name), inner, value)}

    def goal_speed(self, value: object) -> float:
        """The speed of the goal's time."""
        speed = plain(value)
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 <= speed <= MOST_SPEED:
            text = f"{_shown(speed)} is not a number from 0 to {MOST_SPEED:g}; give 1 for the goal as it is stated"
            raise self._error("goal", "speed", text)
        return float(speed)

    def times(self, parts: Sections, step_s: float | str) -> Times:
        """The times of a launch file; a step that is still to be chosen counts as 1 ns."""
        step = 1 if isinstance(step_s, str) else self._nanoseconds("plant", "step", step_s)
        duration = self._whole("run", "duration", parts.run.duration, step)
        if duration // step > MOST_STEPS and not isinstance(step_s, str):
            text = f"{_seconds(duration)} s are {duration // step:.3g} plant steps of {_seconds(step)} s; at most "
            text += f"{MOST_STEPS:.0e} are possible: give at most {_seconds(MOST_STEPS * step)}, or a longer plant.step"
            raise self._error("run", "duration", text)
        period = self._whole("controller", "period", parts.controller.period, step) if parts.controller else None
        return Times(step, duration, period)

    def _struct(self, kind: type[S], section: str, table: dict[str, Any]) -> S:
        """The struct of one section."""
        known = _fields(kind)
        own = {name: value for name, value in table.items() if name in known}
        added = {name: self._added_kind(section, name, table[name], known) for name in table if name not in own}
        values = {name: self._value(section, known[name], value) for name, value in own.items()}
        for name, struct in added.items():
            inside = _dotted(section, name)
            self.more[inside] = self.added(struct, inside, table[name])
        for name, field in known.items():
            if field.required and name not in values:
                if not _is_section(field):
                    words = _words(inspect.type_info(field.type))
                    raise self._error(section, name, f"missing; {_remedy(field)}: {words}")
                values[name] = self._value(section, field, {})
        return kind(**values)

    def _added_kind(self, section: str, name: str, value: object, known: Collection[str]) -> type[AddedSection]:
        """The struct of a section that is none of the core."""
        found = find_section(_dotted(section, name))
        if found is None:
            raise self._unknown_key(section, name, value, [*known, *added_names(section)])
        return found

    def added(self, kind: type[AddedSection], inside: str, value: object) -> AddedSection:
        """What is stated in an added section."""
        with self._own_checks(kind, inside):
            return self.section(kind, inside, kind.stated(value) if isinstance(value, dict) else value)

    @contextmanager
    def _own_checks(self, kind: type[AddedSection], inside: str) -> Iterator[None]:
        """What the struct of an added section refuses is an error of the launch file."""
        try:
            yield
        except LaunchError:
            raise
        except ValueError as error:
            raise self._error(inside, None, str(error)) from error
        except Exception as error:
            text = f"{kind.__module__}.{kind.__qualname__} failed ({type(error).__name__}: {error}); {REMEDY}"
            raise self._error(inside, None, text) from error

    def _value(self, section: str, field: FieldInfo, value: object) -> Any:
        """The value of one key: a struct, a table by name, or a leaf."""
        inside = _dotted(section, field.name)
        by_name, struct = part(field.type, dict), part(field.type, Struct)
        if struct and by_name is None and (isinstance(value, dict) or _is_section(field)):
            several = part(field.type, list) is not None
            return self.sections(struct, inside, value) if several else self.section(struct, inside, value)
        if by_name is None or not isinstance(value, dict):
            key = field.name if section else None
            return self._leaf(section or field.name, key, field, field.type, value)
        entry, always = get_args(by_name)[1], get_args(field.type)[0] == by_name  # a table, so a section of its own
        section, before = (inside, "") if always else (section, f"{field.name}.")
        return {name: self._entry(section, f"{before}{name}", field, entry, item) for name, item in value.items()}

    def _entry(self, section: str, key: str, field: FieldInfo, kind: Any, item: object) -> Any:
        """An entry of a table by name: a section, or a leaf where it is or may be one."""
        struct = part(kind, Struct)
        if struct and (kind == struct or isinstance(item, dict)):
            return self.section(struct, f"{section}.{key}", item)
        return self._leaf(section, key, field, kind, item)

    def sections(self, kind: type[S], inside: str, value: object) -> list[S]:
        """The structs of sections that have one name."""
        if not isinstance(value, list):
            raise self._error(inside, None, f"there may be several: write the keys of each below [[{inside}]]")
        return [self.section(kind, f"{inside}.{i}", each) for i, each in enumerate(value)]

    def section(self, kind: type[S], inside: str, value: object) -> S:
        """The struct of a section, which must be a table."""
        if not isinstance(value, dict):
            problem = f"{_shown(value)} is not a section; write its keys below [{inside}]"
            raise self._error(inside, None, problem)
        return self._struct(kind, inside, value)

    def _leaf(self, section: str, key: str | None, field: FieldInfo, kind: Any, value: object) -> Any:
        """The value converted to its kind, with finite numbers of a size that can be computed with."""
        if section == "plant.initial":  # where a text may be a word of the machine's
            value = constants(value)
        try:
            result = msgspec.convert(value, kind)
        except (msgspec.ValidationError, UnicodeError):
            try:
                result = msgspec.convert(constants(value), kind)
            except (msgspec.ValidationError, UnicodeError):
                raise self._error(section, key, _misfit(field, kind, value) + in_radians(value)) from None
        if (
            (section, key) == ("plant", "driver")
            and result not in our_names()
            and result not in (names := driver_names())
        ):
            raise self._error(section, key, unknown(f"{_shown(result)} is unknown", result, names))
        for number in _flat(result):
            if isinstance(number, int | float) and not abs(number) < math.inf:
                raise self._error(section, key, f"{_shown(value)} is not finite; {_remedy(field)}")
            if isinstance(number, int) and abs(number) > 2**53:
                raise self._error(
                    section, key, f"the magnitude of {_shown(value)} is above 2**53; give a smaller number"
                )
            own = section == "controller.settings"  # of the program, which may bound them
            if isinstance(number, float) and abs(number) > LARGEST and not own:
                text = f"{_shown(value)} is outside the range of numbers, -{LARGEST:g} to {LARGEST:g}"
                raise self._error(section, key, f"{text}; {_remedy(field)}")
        return result

    def _nanoseconds(self, section: str, key: str, seconds: float) -> int:
        """The decimal number as written, in ns: 0.3 s is 300000000."""
        nanoseconds = int(Decimal(repr(seconds)).scaleb(9).to_integral_value())
        if nanoseconds < 1:
            raise self._error(section, key, f"{seconds!r} s is 0 when rounded to ns; use at least 1e-9")
        return nanoseconds

    def _whole(self, section: str, key: str, seconds: float, step: int) -> int:
        """The time in ns, which must be a whole number of plant steps."""
        time = self._nanoseconds(section, key, seconds)
        below = time - time % step
        if below == time:
            return time
        near = " or ".join(_seconds(choice) for choice in (below, below + step) if choice)
        text = f"{_seconds(time)} s is not a whole number of plant steps of {_seconds(step)} s; use {near}"
        raise self._error(section, key, text)

    def _unknown_key(self, section: str, name: str, value: object, known: Collection[str]) -> LaunchError:
        if section:
            return self._error(section, name, unknown("unknown key", name, known))
        if isinstance(value, dict):
            return self._error(name, None, unknown("unknown section", name, known))
        sections = choices(f"[{section}]" for section in known)
        return self._error("", name, f"outside every section; write it below {sections}")

    def _error(self, section: str, key: str | None, text: str) -> LaunchError:
        """The error, at the command-line option that set this key, something in it, or the table it is in."""
        dotted = ".".join(part for part in (section, key) if part)
        for option in reversed(self.options):
            if f"{dotted}.".startswith(f"{option}.") or option.startswith(f"{dotted}."):
                return LaunchError(self.file, section, key, text, option if "." in option else dotted)
        return LaunchError(self.file, section or None, key, text)


def joined_key(key: str) -> str:
    """A dotted key, the names of a parameter joined: plant.parameters.link3.mass is plant.parameters.link3_mass."""
    section, dot, name = key.partition(".parameters.")
    return f"{section}{dot}{name.replace('.', '_')}" if HAS_PARAMETERS.fullmatch(section) else key


def with_joined_names(file: str, table: dict[str, Any], above: str = "") -> dict[str, Any]:
    """The table of a launch file, those of parameters flat, their names joined, and each keep a table.

    above: the section that it stands in.

    Raises:
        LaunchError: a parameter is given by two names.
    """
    found = dict(table)
    for name in ("plant", "controller"):
        section = table.get(name)
        if isinstance(section, dict) and isinstance(section.get("parameters"), dict):
            found[name] = {
                **section,
                "parameters": _with_one_name(file, f"{above}{name}.parameters", section["parameters"]),
            }
    controller = found.get("controller")
    if isinstance(controller, dict) and isinstance(keeps := controller.get("keep"), dict):
        tables = {name: {"expression": each} if isinstance(each, str) else each for name, each in keeps.items()}
        found["controller"] = {**controller, "keep": tables}
    return found


def _with_one_name(file: str, section: str, parameters: dict[str, Any]) -> dict[str, Any]:
    found, keys = dict[str, Any](), dict[str, str]()
    for key, value in _leaves(parameters):
        name = key.replace(".", "_")
        if name in keys:
            raise LaunchError(file, section, key, f"the same parameter as {keys[name]}; keep one of them")
        found[name], keys[name] = value, key
    return found


def _with_points(file: str, path: Path, goals: Mapping[str, Any]) -> dict[str, Any]:
    """The goals, each with the points of its samples: read once, so that a recording holds them."""
    found = dict(goals)
    for name, goal in goals.items():
        if isinstance(goal, Goal) and goal.samples is not None and goal.points is None:
            with naming_file(file), stated_in(f"target.{name}", "samples"):
                points = read_samples(path.parent / goal.samples, goal.column or name)
            found[name] = replace(goal, points=points)
    return found


def _flat(value: object) -> Iterator[object]:
    """The entries of a list, and of the lists in it; what is no list by itself."""
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
    else:
        yield value


def _toml_value(raw: str) -> object:
    """The TOML value of a text, or the text itself."""
    try:
        table = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):
        return raw
    return table["value"] if len(table) == 1 else raw


def _is_section(field: FieldInfo) -> bool:
    """Whether a key is a section, or several of one name, and nothing else."""
    return part(field.type, Struct) is not None and part(field.type, str) is None


@cache
def _fields(kind: type[Struct]) -> dict[str, FieldInfo]:
    """The keys of a section, by name."""
    return {field.name: field for field in fields(kind)}


def _misfit(field: FieldInfo, kind: Any, value: object) -> str:
    info = _bare(inspect.type_info(kind))
    if isinstance(info, inspect.LiteralType):
        return unknown(f"{_shown(value)} is unknown", str(value), [str(choice) for choice in info.values])
    return f"{_shown(value)} is not {_words(info)}; {_remedy(field)}"


def _remedy(field: FieldInfo) -> str:
    """What to write for a key: its sentence, unit and default."""
    info = inspect.type_info(field.type)
    assert isinstance(info, inspect.Metadata)
    sentence, unit = (info.extra_json_schema or {})["description"], (info.extra or {})["unit"]
    default = f" (default {_shown(field.default)})" if isinstance(field.default, str | int | float) else ""
    verb = "say" if sentence.startswith("whether") else "give"
    return f"{verb} {sentence}{unit and ', in ' + unit}{default}"


def _bare(info: inspect.Type) -> inspect.Type:
    return info.type if isinstance(info, inspect.Metadata) else info


def _words(info: inspect.Type) -> str:
    """The kind of value in words, such as "a number > 0"."""
    match _bare(info):
        case inspect.FloatType() | inspect.IntType() as number:
            signs = {">": number.gt, ">=": number.ge, "<": number.lt, "<=": number.le}
            bounds = " and ".join(f"{sign} {bound:g}" for sign, bound in signs.items() if bound is not None)
            return f"a {'whole ' if isinstance(number, inspect.IntType) else ''}number {bounds}".rstrip()
        case inspect.StrType(min_length=length):
            return "a nonempty text" if length else "a text"
        case inspect.LiteralType(values=values):
            return choices(_shown(value) for value in values)
        case inspect.UnionType(types=types):
            return choices(_words(part) for part in types if not isinstance(part, inspect.NoneType))
        case other:
            item = other.item_type if isinstance(other, inspect.ListType) else None
            if isinstance(item, inspect.LiteralType):
                return f"a list of {_words(item)}"
            texts = isinstance(item, inspect.StrType)
            names = {
                inspect.BoolType: "a boolean (true or false)",
                inspect.ListType: f"a list of {'texts' if texts else 'numbers'}",
            }
            return names.get(type(other), "a table by name")


def _seconds(nanoseconds: int) -> str:
    """The shortest decimal of a time, without exponent."""
    text = f"{Decimal(nanoseconds).scaleb(-9):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _shown(value: object) -> str:
    """The value as TOML would write it, cut after 60 characters; a nested one by its kind only."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        text = f"[{', '.join('[...]' if isinstance(item, list) else _shown(item) for item in value[:9])}]"
    elif isinstance(value, str):
        text = json.dumps(value[:61], ensure_ascii=False)
    elif isinstance(value, bool):
        text = str(value).lower()
    else:
        text = "a huge number" if isinstance(value, int) and abs(value) > 10**60 else str(value)
    return text if len(text) <= 62 else text[:57] + "..."


class SamplesError(StatementError):
    """A file of samples cannot be read, or has not what is asked for; the text says why and where."""


def read_samples(file: Path, column: str) -> list[list[float]]:
    """The pairs of time [s] and value of one column.

    Raises:
        SamplesError: it cannot be read, lacks a column, or holds what is not a finite number; its `key` says what is
            wrong of the launch file.
    """
    try:
        if not file.is_file():
            raise SamplesError(f"{file} does not exist; give the path of a CSV file, relative to the launch file")
        with file.open(encoding="utf-8", newline="") as stream:
            return _points(file, csv.reader(iter(lambda: stream.readline(LONGEST_LINE), "")), column)
    except OSError as error:
        raise SamplesError(f"{file} cannot be read ({error.strerror or error}); give a CSV file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        text = f"{file} is not a CSV file ({error}); give one with a line of names, t among them"
        raise SamplesError(text) from error


def _points(file: Path, reader: "csv._reader", column: str) -> list[list[float]]:  # type: ignore[name-defined]
    names = [each.strip() for each in next(reader, [])]
    if "t" not in names:
        raise SamplesError(f"{file} has no column t; its first line must name its columns, the times as t [s]")
    if column not in names:
        others = [each for each in names if each != "t"]
        near = did_you_mean(column, others)
        error = SamplesError(f"{file} has no column {column!r}; {near}write column = one of {', '.join(others)}")
        error.key = "column"
        raise error
    at, points = (names.index("t"), names.index(column)), list[list[float]]()
    for row in reader:
        if any(each.strip() for each in row):
            points.append([_number(file, reader.line_num, names[i], row[i] if i < len(row) else "") for i in at])
        if len(points) > MOST_POINTS:
            text = f"{file} has more than {MOST_POINTS} rows; keep every second or tenth of them"
            raise SamplesError(text)
    return points


def _number(file: Path, line: int, name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SamplesError(f"{file}, line {line}: {name} is {text[:30]!r}, which is not a finite number; give one")
    return number
