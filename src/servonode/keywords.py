"""The keywords of the public functions that state something of a launch file: one spelling for all of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec import inspect as struct_inspect

from servonode.closed_loop.added_sections import all_sections, find_section
from servonode.closed_loop.launch_error import naming_file
from servonode.closed_loop.launch_file import GOAL_SPEED, plain, with_values
from servonode.closed_loop.launch_keys import Sections
from servonode.definitions.references import reference_to
from servonode.errors import CallError, StatementError, check_mapping, did_you_mean, nearest

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop

KEYWORDS = {  # keyword -> key of launch files; of tables by name those entries that are given are changed
    "duration": "run.duration",
    "period": "controller.period",
    "residuals": "controller.residuals",
    "keep": "controller.keep",
    "program": "controller.program",
    "settings": "controller.settings",
    "gains": "controller.gains",
    "targets": "target",
    "initial": "plant.initial",
    "parameters": "plant.parameters",
    "limits": "plant.actuator.limit",
}
WHOLE = ("residuals", "limits")  # that replace what the launch file states
VALUES = "values"  # holds values by dotted key
SINGLE = ("duration", "period", "program", "limits")  # that are no tables by name, or need not be
EXAMPLES = {VALUES: GOAL_SPEED}  # of the names in a table


def given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Of the arguments of a function, by name, those of these keywords that its caller has given."""
    return {word: arguments[word] for word in (*KEYWORDS, VALUES) if arguments.get(word) is not None}


def dotted(keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values by dotted key of launch files, as TOML has them, and how the caller has spelled each of these keys.

    keywords: these, and others with `__` for the dot; a section may be given as a mapping of its keys.

    Raises:
        StatementError: one is not the mapping that it must be, or an expression of sympy has no text.
    """
    found, spelled = dict[str, Any](), dict[str, str]()
    for word, value in keywords.items():
        key = "" if word == VALUES else KEYWORDS.get(word, word.replace("__", "."))
        if word in (*KEYWORDS, VALUES) and word not in SINGLE:
            example = {"residuals": "'x - sin(t)'", "keep": "'1.2 - x'"}.get(word, "1.0")
            check_mapping(word, value, EXAMPLES.get(word, "NAME"), example)
        by_name = word not in WHOLE and (word in KEYWORDS or "__" not in word) and isinstance(value, Mapping)
        for name, each in value.items() if by_name else [("", value)]:
            entry = ".".join(filter(None, (key, name)))
            found[entry] = each
            spelled[entry] = f"{word}[{name!r}]" if name and word in (*KEYWORDS, VALUES) else word
    if (stated := found.get("controller.program")) is not None and not isinstance(stated, str):
        found["controller.program"] = reference_to(stated)
    for key, value in found.items():
        if key.startswith("goal.") and key != GOAL_SPEED:
            near = did_you_mean(key, [GOAL_SPEED])
            raise StatementError(f"{spelled[key]}: {key!r} is no key; {near}the goal has {GOAL_SPEED} alone")
        try:
            found[key] = _toml(value)
        except StatementError as error:
            raise StatementError(f"{spelled[key]}: {error}") from None
    return found, spelled


def _toml(value: Any) -> Any:
    """A value as TOML has it, those in tables too."""
    return {name: _toml(each) for name, each in value.items()} if isinstance(value, Mapping) else plain(value)


def check_goal_speed(closed_loop: "ClosedLoop", keywords: Mapping[str, Any]) -> None:
    """Raise LaunchError where a speed of the goal is given whose time moves nothing."""
    if GOAL_SPEED in dotted(keywords)[0] and not keywords.get("targets"):
        from servonode.analysis.goal_speed import check_speed

        as_stated = closed_loop.varied(with_values(closed_loop.stated, {GOAL_SPEED: 1.0}))
        with naming_file(closed_loop.launch.file):
            check_speed(as_stated, *GOAL_SPEED.split("."))


def check_keywords(overrides: Mapping[str, Any], called: Callable[..., Any]) -> None:
    """CallError for a keyword that is neither an argument of the function nor a key of launch files."""
    keys = _keys(Sections)
    for word, value in overrides.items():
        section = word.partition("__")[0]
        if word in (*KEYWORDS, VALUES) or word.replace("__", ".") == GOAL_SPEED:
            continue
        own = keys.get(section)
        if own is None and (added := find_section(section)) is not None:
            own = added.__struct_fields__
        if own is None:
            raise CallError(_unknown_argument(word, called, _keys(all_sections(installed=True))))
        listed = isinstance(value, list) and not own
        if "__" not in word and not isinstance(value, Mapping) and not listed:
            example = f"{section}__{own[0]}=" if own else f"{section}={{'x': 1.0}}"
            example = "fault=[{'on': 'drive', 'kind': 'off', 'at': 1.0}]" if section == "fault" else example
            raise CallError(f"{called.__name__}(): {word}={value!r} is not a mapping of its keys; write {example}...")


def _unknown_argument(word: str, called: Callable[..., Any], keys: Mapping[str, Sequence[str]]) -> str:
    """That there is no such argument, with the nearest one or the nearest key of launch files."""
    from inspect import signature  # after mistakes alone

    stated = signature(called).parameters.values()
    arguments = [each.name for each in stated if each.kind is each.KEYWORD_ONLY]
    near = did_you_mean(word, arguments)
    if not near:  # a key without its section, or with one underscore
        dotted = [(section, key) for section, known in keys.items() for key in known]
        spelled = {f"{section}_{key}": (section, key) for section, key in dotted} | {key: (s, key) for s, key in dotted}
        near = "".join(f"did you mean {'__'.join(spelled[each])}? " for each in nearest(word, spelled))
    text = f"{called.__name__}() has no argument {word!r}; {near}it takes {', '.join(arguments)}"
    return f"{text}, and keys of launch files as SECTION__KEY=, with the sections {', '.join(keys)}"


@cache
def _keys(sections: type[Struct]) -> dict[str, tuple[str, ...]]:
    """The keys of each section of launch files."""
    found = {}
    for field in struct_inspect.type_info(sections).fields:  # type: ignore[attr-defined]
        info = field.type
        parts = [info, *getattr(info, "types", ())]
        structs = [each for each in parts if isinstance(each, struct_inspect.StructType)]
        found[field.encode_name] = tuple(each.encode_name for part in structs for each in part.fields)
    return found
