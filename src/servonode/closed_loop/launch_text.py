"""A launch file as resolved, written as TOML: every key with its value, defaults and overrides included."""

import json
import re
from collections.abc import Mapping
from typing import Any

from servonode.closed_loop.launch_file import table_of
from servonode.closed_loop.launch_keys import LaunchFile


def launch_text(launch: LaunchFile) -> str:
    """The text of a launch file that gives the same run."""
    return table_text(table_of(launch))


def table_text(table: Mapping[str, Any]) -> str:
    """The same of a launch file's table."""
    return "\n".join(_section((name,), section) for name, section in table.items()).strip() + "\n"


def _section(path: tuple[str, ...], table: Mapping[str, Any]) -> str:
    """A table with its own keys, behind it the tables in it; without a key it is left out."""
    own = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [
        f"[{'.'.join(map(_key, path))}]",
        *(f"{_key(key)} = {toml_value(value)}" for key, value in own.items()),
        "",
    ]
    inner = [_section((*path, key), value) for key, value in table.items() if isinstance(value, Mapping)]
    return "\n".join([*(lines if own else []), *filter(None, inner)])


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


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
