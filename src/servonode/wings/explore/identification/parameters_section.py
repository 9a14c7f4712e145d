"""Identified parameters as [plant.parameters]: a section of its own, or put into a launch file as it is written.

Comments, order and everything else of the file stay. The law believes the plant's parameters where
[controller.parameters] does not say otherwise; where it does, that is changed too.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servonode.closed_loop.launch_file import LaunchError, joined_key, with_joined_names
from servonode.record.files import replaced_file
from servonode.wings.explore.identification.experiment import IdentificationError

HEADER = re.compile(r"^\s*\[([\w.\-\s]+)\]\s*(#.*)?$")
NUMBER = r"[-+]?[\d._]+(?:[eE][-+]?\d+)?|\"[^\"\n]*\"|'[^'\n]*'"  # or an expression in quotation marks


def section_text(values: Mapping[str, float], remarks: Mapping[str, str] = {}) -> str:
    """[plant.parameters] with these values. remarks: comments behind them, by name."""
    lines = [_line(name, value, remarks.get(name, "")) for name, value in values.items()]
    return "\n".join(["[plant.parameters]", *lines]) + "\n"


def _line(name: str, value: float, remark: str) -> str:
    return f"{name} = {value!r}" + (f"  # {remark}" if remark else "")


def write_section(file: Path, values: Mapping[str, float], remarks: Mapping[str, str] = {}) -> None:
    """Put the values into a launch file, or into a new file with this section alone.

    Raises:
        IdentificationError: the file is no TOML, or states parameters in a way that cannot be changed line by line;
        OSError: it cannot be written.
    """
    if file.exists():
        text = changed(file.read_text("utf-8"), values, remarks, str(file))
    else:
        text = section_text(values, remarks)
    with replaced_file(file.resolve()) as draft:
        draft.write_text(text, "utf-8")


def changed(text: str, values: Mapping[str, float], remarks: Mapping[str, str], name: str) -> str:
    """The text of a launch file with these values of the plant, and of the law where it states its own."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise IdentificationError(f"{name}: is not TOML ({error}); name a launch file, or a new file") from error
    lines = text.splitlines()
    before = with_joined_names(name, before)
    own = before.get("controller", {}).get("parameters", {})
    wanted: dict[str, Mapping[str, float]] = {"plant": values}
    wanted["controller"] = {each: value for each, value in values.items() if each in own}
    for section, numbers in wanted.items():
        for each, value in numbers.items():
            lines = _with_value(lines, section, each, value, remarks.get(each, ""))
    result = "\n".join(lines) + "\n"
    if _parsed(result, name) != _expected(before, wanted):
        remedy = f"change it by hand:\n{section_text(values)}"
        raise IdentificationError(f"{name}: its parameters are stated in a way that cannot be changed here; {remedy}")
    return result


def _parsed(text: str, name: str) -> dict[str, Any] | None:
    try:
        return with_joined_names(name, tomllib.loads(text))
    except (tomllib.TOMLDecodeError, LaunchError):
        return None


def _expected(before: dict[str, Any], wanted: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    found = dict(before)
    for section, numbers in wanted.items():
        if numbers:
            table = dict(found.get(section, {}))
            found[section] = table | {"parameters": dict(table.get("parameters", {})) | dict(numbers)}
    return found


def _with_value(lines: list[str], section: str, name: str, value: float, remark: str) -> list[str]:
    """The lines with the value where it stands, else behind the other parameters, else in a section at the end."""
    path, table, behind = f"{section}.parameters.{name}", "", None
    before = {f"{section}.parameters": "", section: "parameters.", "": f"{section}.parameters."}  # a key, by the table
    for i, line in enumerate(lines):
        if header := HEADER.match(line):
            table = re.sub(r"\s", "", header[1])
            if table == f"{section}.parameters":
                behind = i, ""
            continue
        key = re.sub(r"\s", "", line.partition("=")[0])
        whole = f"{table}.{key}" if table else key
        if joined_key(whole) == path:
            return [*lines[:i], re.sub(rf"=(\s*)({NUMBER})", rf"=\g<1>{value!r}", line, count=1), *lines[i + 1 :]]
        if whole == f"{section}.parameters" and "=" in line:
            return [*lines[:i], _inline(line, name, value), *lines[i + 1 :]]
        if whole.startswith(f"{section}.parameters.") and "=" in line and table in before:
            behind = i, before[table]
    if behind is None:
        blank = [""] if lines and lines[-1].strip() else []
        return [*lines, *blank, f"[{section}.parameters]", _line(name, value, remark)]
    at, above = behind
    return [*lines[: at + 1], _line(f"{above}{name}", value, remark), *lines[at + 1 :]]


def _inline(line: str, name: str, value: float) -> str:
    """A table within a line, `parameters = {m1 = 4.0}`, with the value."""
    stated = re.escape(name).replace("_", "[._]")  # as link3.mass or link3_mass
    found, count = re.subn(rf"([{{,]\s*{stated}\s*=\s*)({NUMBER})", rf"\g<1>{value!r}", line, count=1)
    if count:
        return found
    inside = re.search(r"\{(.*)\}", line)
    comma = ", " if inside and inside[1].strip() else " "
    return re.sub(r"\s*\}", f"{comma}{name} = {value!r} }}", line, count=1)
