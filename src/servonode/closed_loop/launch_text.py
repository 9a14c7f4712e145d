"""A launch file as resolved, written as TOML: every key with its value, defaults and overrides included."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from servonode.closed_loop.launch_file import table_of
from servonode.closed_loop.launch_keys import LaunchFile

BARE = re.compile(r"[A-Za-z0-9_-]+")  # names that need no quotation marks


def launch_text(launch: LaunchFile) -> str:
    """The text of a launch file that gives the same run."""
    return table_text(table_of(launch))


def table_text(table: Mapping[str, Any]) -> str:
    """The same of a launch file's table."""
    texts = [
        each
        for name, content in table.items()
        for each in ([_section((name,), content)] if isinstance(content, Mapping) else _sections(name, content))
    ]
    return "\n".join(texts).strip() + "\n"


def _sections(name: str, tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Several tables of one name."""
    return [_section((name,), each).replace(f"[{name}]", f"[[{name}]]", 1) for each in tables]


def _section(path: tuple[str, ...], table: Mapping[str, Any]) -> str:
    """A table with its own keys, behind it the tables in it; without a key it is left out.

    Tables of dotted names, as in [sweep.vary], stand in a line like other values, so that the order of all is kept.
    """
    apart = [key for key, value in table.items() if isinstance(value, Mapping) and BARE.fullmatch(key)]
    own = {key: value for key, value in table.items() if key not in apart}
    lines = [
        f"[{'.'.join(map(_key, path))}]",
        *(f"{_key(key)} = {toml_value(value)}" for key, value in own.items()),
        "",
    ]
    inner = [_section((*path, key), table[key]) for key in apart]
    return "\n".join([*(lines if own else []), *filter(None, inner)])


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else toml_value(name)


def toml_value(value: Any) -> str:
    """A value as TOML writes it; a number or array of numpy as one of Python."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_value(str(key))} = {toml_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)
