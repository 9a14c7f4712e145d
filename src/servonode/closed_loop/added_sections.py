"""Sections of launch files that wings and other packages add: their structs, each loaded when it is named."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from msgspec import NODEFAULT, Struct, defstruct, field, inspect, to_builtins
from msgspec.structs import FieldInfo, fields

from servonode import extensions
from servonode.closed_loop.launch_keys import Controller, Plant, Section, Sections
from servonode.extensions import KINDS, REMEDY, EntryPoint, ExtensionError
from servonode.plants.keys import AddedSection

KIND = "sections"
PLACES: dict[str, type[Section]] = {"": Sections, "plant": Plant, "controller": Controller}  # where one may be added


def find_section(name: str) -> type[AddedSection] | None:
    """The struct of an added section by its dotted name, such as "plant.mujoco"; None: nobody adds it.

    Raises:
        ExtensionError: what adds it is broken.
    """
    above, _, last = name.rpartition(".")
    if above not in PLACES or last in PLACES[above].__struct_fields__:
        return None
    added = extensions.find(KIND, name)
    return None if added is None else _struct(added)


def section_of(key: str) -> tuple[str, type[AddedSection]] | None:
    """The added section in which a dotted key stands, by its name; None: the key is one of the core, or nobody's.

    Raises:
        ExtensionError: what adds it is broken.
    """
    names = key.split(".")
    name = ".".join(names[: 2 if names[0] in PLACES else 1])
    kind = find_section(name)
    return None if kind is None else (name, kind)


def added_names(above: str) -> list[str]:
    """The last names of the sections that are added within one, `""`: to the launch file; nothing is imported."""
    if above not in PLACES:
        return []
    parts = (each.rpartition(".") for each in extensions.names(KIND))
    own = PLACES[above].__struct_fields__  # no package takes their place
    return [last for place, _, last in parts if place == above and last and last not in own]


def defaults(kind: type[AddedSection]) -> AddedSection | None:
    """An added section of which nothing is stated; None: it has keys without a default."""
    return None if any(each.required for each in fields(kind)) else kind()


def beyond_defaults(stated: Struct) -> dict[str, Any]:
    """The keys of a struct that differ from their defaults, as TOML has their values."""
    kept = {
        each.name: each.default_factory() if each.default is NODEFAULT and not each.required else each.default
        for each in fields(stated)
    }
    values: dict[str, Any] = to_builtins(stated)
    return {name: value for name, value in values.items() if getattr(stated, name) != kept[name]}


def all_sections(installed: bool = False) -> type[Section]:
    """The struct of a launch file's sections, those that wings add among them.

    installed: those of other packages too, but for broken ones.
    """
    added: dict[str, dict[str, type[AddedSection]]] = {above: {} for above in PLACES}
    for each in (*extensions.of_wings(KIND).values(), *(_of_packages() if installed else ())):
        above, _, last = each.name.rpartition(".")
        if above in PLACES and last not in PLACES[above].__struct_fields__:
            added[above].setdefault(last, _struct(each))
    plant, controller = (_joined(PLACES[each], {}, added[each]) for each in ("plant", "controller"))
    return _joined(Sections, {"plant": plant, "controller": controller | None}, added[""])


def _of_packages() -> list[EntryPoint]:
    """The sections of other packages that can be used."""
    found = []
    for name, entries in sorted(extensions.of_packages(KIND).items()):
        with suppress(ExtensionError):
            if name not in extensions.of_wings(KIND) and find_section(name) is not None:
                found.append(entries[0])
    return found


def _joined(kind: type[Section], changed: Mapping[str, Any], added: Mapping[str, Any]) -> type[Section]:
    """The struct of a section with other types for some keys, and with more keys behind its own."""
    own = [(each.name, changed.get(each.name, each.type), _default(each)) for each in fields(kind)]
    texts = {"__doc__": kind.__doc__, "fixed": kind.fixed}
    made: Any = defstruct(
        kind.__name__,
        [*own, *((name, struct | None, None) for name, struct in added.items())],
        bases=(Section,),
        namespace=texts,
        frozen=True,
    )
    joined: type[Section] = made
    return joined


def _default(of: FieldInfo) -> Any:
    return of.default if of.default_factory is NODEFAULT else field(default_factory=of.default_factory)


@cache
def _struct(added: EntryPoint) -> type[AddedSection]:
    """The struct of an added section.

    Raises:
        ExtensionError: it cannot be imported, or is of another kind.
    """
    found = added.load(type)
    what = f"{added.origin}: its {KINDS[KIND]} {added.name!r} ({added.reference})"
    if not issubclass(found, AddedSection):
        raise ExtensionError(f"{what} is not derived of servonode.plants.keys.AddedSection; {REMEDY}")
    for key in _without_text(found):
        text = f"{what} does not say what its key {key!r} is; annotate it with servonode.plants.keys.key"
        raise ExtensionError(f"{text}; {REMEDY}")
    return found


def _without_text(kind: type[Struct]) -> Iterator[str]:
    """The keys of a struct, and of those in it, that are neither tables with keys of their own nor described."""
    for each in fields(kind):
        info = inspect.type_info(each.type)
        for inside in _structs(info):
            yield from _without_text(inside)
        is_section = any(isinstance(part, inspect.StructType) for part in (info, *getattr(info, "types", ())))
        if not is_section and "nature" not in (getattr(info, "extra", None) or {}):
            yield each.name


def _structs(info: inspect.Type) -> Iterator[type[Struct]]:
    """The structs in a type."""
    match info:
        case inspect.StructType(cls=kind):
            yield kind
        case inspect.Metadata(type=inner) | inspect.DictType(value_type=inner) | inspect.ListType(item_type=inner):
            yield from _structs(inner)
        case inspect.UnionType(types=types):
            for each in types:
                yield from _structs(each)
