"""The table of the keys of a launch file: what the structs in `launch_keys.py`, and those of added sections, state.

Schema, page, completion, variations, live numbers, sweeps and runs on two computers are made of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from msgspec import Struct, inspect
from msgspec.structs import FieldInfo, fields

from servonode.closed_loop.added_sections import PLACES, all_sections, section_of
from servonode.closed_loop.launch_keys import Sections
from servonode.plants.keys import AddedSection, Nature

SECTION = Nature(apart=True)  # of a key that is a section
OF_ADDED = "it is read when the run starts"  # why a key of an added section that says nothing stays as it is


@dataclass(frozen=True, kw_only=True)
class Key(Nature):
    """What a dotted key leads to.

    table: the section and key that structs state, up to the first name in a table by name; names: those that follow;
    kind: the type of a value.
    """

    table: str
    names: tuple[str, ...]
    kind: Any

    @property
    def is_whole(self) -> bool:
        """Whether it takes whole numbers alone."""
        kinds = [type(each) for each in _number_types(inspect.type_info(self.kind))]
        return inspect.IntType in kinds and inspect.FloatType not in kinds

    @property
    def example(self) -> float:
        """A number that it takes, if it takes one: 1, or the one within its bounds that is nearest to it."""
        for each in _number_types(inspect.type_info(self.kind)):
            most = min(1 if each.le is None else each.le, 1 if each.lt is None else each.lt / 2)
            return most if each.ge is None else max(most, each.ge)
        return 1


def _number_types(info: inspect.Type) -> Iterator[inspect.FloatType | inspect.IntType]:
    """The types of numbers among those that a value may have."""
    match info:
        case inspect.FloatType() | inspect.IntType():
            yield info
        case inspect.Metadata(type=inner):
            yield from _number_types(inner)
        case inspect.UnionType(types=types):
            for each in types:
                yield from _number_types(each)


@cache
def _field(struct: type[Struct], name: str) -> tuple[Nature, Any] | None:
    """The nature of a key of a section, and its type; None: there is no such key."""
    field = next((each for each in fields(struct) if each.name == name), None)
    return None if field is None else (nature(field), field.type)


def key_of(dotted: str) -> Key | None:
    """What a launch file's structs state of a dotted key, or of the table in which it stands; None: nothing."""
    added = section_of(dotted)
    return _key_of(Sections, "", dotted, "") if added is None else _key_in(*added, dotted)


def _key_in(section: str, kind: type[AddedSection], dotted: str) -> Key | None:
    """What an added section states."""
    above, _, _ = section.rpartition(".")
    fixed = kind.fixed or PLACES[above].fixed or OF_ADDED
    if dotted == section:
        return Key(**{**vars(SECTION), "table": section, "names": (), "kind": kind, "fixed": fixed})
    return _key_of(kind, f"{section}.", dotted.removeprefix(f"{section}."), fixed)


@cache
def _key_of(struct: type[Struct], above: str, dotted: str, fixed: str) -> Key | None:
    """What a struct states of a key in it. above: the place of the struct in a launch file."""
    path, names, waiting = list[str](), list[str](), dotted.split(".")
    while True:
        if (found := _field(struct, waiting[0])) is None:
            return None
        (names if names else path).append(waiting.pop(0))
        stated, kind = found
        by_name = part(kind, dict)
        fixed = stated.fixed or fixed
        if waiting and by_name is not None:
            kind = get_args(by_name)[1]
        inside = part(kind, Struct)
        several = by_name is not None or part(kind, list) is not None
        if inside is None or len(waiting) <= several:
            at = {"table": above + ".".join(path), "names": (*names, *waiting), "kind": kind, "fixed": fixed}
            return Key(**{**vars(stated), **at})
        if several:
            names.append(waiting.pop(0))
        struct, fixed = inside, getattr(inside, "fixed", "") or fixed


def description(field: FieldInfo) -> str:
    """The sentence of a key."""
    return str((getattr(inspect.type_info(field.type), "extra_json_schema", None) or {}).get("description", ""))


def nature(field: FieldInfo) -> Nature:
    """What else its struct states of a key."""
    stated: Nature = (getattr(inspect.type_info(field.type), "extra", None) or {}).get("nature", SECTION)
    return stated


def _sections(struct: type[Struct], above: str) -> Iterator[tuple[str, type[Struct]]]:
    """All sections below one, by their headings on the page."""
    for field in fields(struct):
        if (inside := part(field.type, Struct)) is None:
            continue
        name = above + field.name
        if part(field.type, dict) is not None:
            name = f"{name}.NAME"
        elif part(field.type, list) is not None:
            name = f"[{name}]"
        yield name, inside
        yield from _sections(inside, f"{name}.")


def keys_of(struct: type[Struct]) -> list[FieldInfo]:
    """The keys of a section that are no tables with a text of their own."""
    return [field for field in fields(struct) if not nature(field).apart]


def sections(installed: bool = False) -> tuple[tuple[str, type[Struct]], ...]:
    """All sections of launch files, of wings too, by their headings on the page. installed: as of `all_sections`."""
    return tuple(_sections(all_sections(installed), ""))


def keys_of_launch_files() -> dict[str, str]:
    """Every key that has a name of its own, dotted as in `--set`, with what it is; those of other packages too."""
    return {
        f"{section}.{field.name}": description(field)
        for section, struct in sections(installed=True)
        for field in keys_of(struct)
        if "NAME" not in section and "[" not in section
    }


def part(kind: Any, wanted: type) -> Any:
    """The part of an annotation that is a Struct, a list or a dict, or None.

    Not cached: `float | str` equals `str | float`, and an error would name what it takes in the order of another key.
    """
    if isinstance(kind, type) and issubclass(kind, wanted):
        return kind
    if get_origin(kind) is wanted:
        return kind
    parts = get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind)
    return next((found for part_of in parts if (found := part(part_of, wanted)) is not None), None)
