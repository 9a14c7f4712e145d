"""Extensions: what wings and other packages add to servonode, by kind and name. It imports nothing but the errors.

A wing states its entry points in its file `entry_points.py`, as data: ENTRY_POINTS[kind][name] is a reference
"package.module:object". Another package states the same in its metadata, as entry points of the group
`servonode.KIND`. Nothing of them is imported before it is asked for by its name, and other packages are searched only
for names that no wing has: the table of installed packages takes as long to read as a short command.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from servonode.errors import ServonodeError, did_you_mean

KINDS = {  # the word for one of each kind
    "commands": "command",
    "drivers": "driver",
    "exports": "export",
    "machines": "machine",
    "programs": "program",
    "public": "public name",  # of wings alone: what the methods of `Loop` and the public functions ask
    "sections": "section of launch files",
    "sources": "source of machines",
    "views": "view",
}
GROUP = "servonode."  # begins the groups of entry points, which end with a kind
OURS = "servonode"  # the origin of what a wing adds
WINGS = Path(__file__).parent / "wings"
REMEDY = "repair the package, or uninstall it"
T = TypeVar("T")


class ExtensionError(ServonodeError, ImportError):
    """What a wing or package adds cannot be used, or is missing; the text names it and the package."""


@dataclass(frozen=True)
class EntryPoint:
    """What is added under a name. reference: "package.module:object". origin: `servonode`, or package and version."""

    kind: str
    name: str
    reference: str
    origin: str = OURS

    def load(self, wanted: type[T]) -> T:
        """The object, of this type; its module is imported.

        Raises:
            ExtensionError: it cannot be imported, or is of another type.
        """
        what = f"{self.origin}: its {KINDS[self.kind]} {self.name!r} ({self.reference})"
        module, _, attribute = self.reference.partition(":")
        try:
            made = import_module(module)
            for each in attribute.split("."):
                made = getattr(made, each)
        except ServonodeError:
            raise  # such as a library that is not installed, with the command that installs it
        except (Exception, SystemExit) as error:
            raise ExtensionError(f"{what} cannot be imported ({type(error).__name__}: {error}); {REMEDY}") from error
        if not isinstance(made, wanted):
            kind = f"a {wanted.__module__}.{wanted.__qualname__}".replace("a builtins.type", "a class")
            raise ExtensionError(f"{what} is of type {type(made).__name__}, not {kind}; {REMEDY}")
        return made


def of_wings(kind: str) -> Mapping[str, EntryPoint]:
    """What the wings add of a kind, by name, in the order of the wings' names."""
    return _of_wings().get(kind, {})


@cache
def _of_wings() -> dict[str, dict[str, EntryPoint]]:
    found: dict[str, dict[str, EntryPoint]] = {}
    for file in sorted(WINGS.glob("*/entry_points.py")):
        stated = import_module(f"servonode.wings.{file.parent.name}.entry_points").ENTRY_POINTS
        for kind, references in stated.items():
            named = {name: EntryPoint(kind, name, reference) for name, reference in references.items()}
            found.setdefault(kind, {}).update(named)
    return found


def of_packages(kind: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """What other installed packages add of a kind, by name; several where they have the same name."""
    return _of_packages(tuple(sys.path)).get(kind, {})


@cache
def _of_packages(_path: tuple[str, ...]) -> dict[str, dict[str, tuple[EntryPoint, ...]]]:
    from importlib.metadata import distributions  # slow to import

    found: dict[str, dict[str, tuple[EntryPoint, ...]]] = {}
    seen = set[str]()
    for known in distributions():
        try:
            stated = [each for each in known.entry_points if each.group.startswith(GROUP)]
        except Exception as error:  # noqa: BLE001  (text that is no metadata, of whatever package)
            if GROUP in (known.read_text("entry_points.txt") or "") and known.name not in seen:
                import logging  # not for the operator's verbs, which must be quick

                seen.add(known.name)
                text = "%s: its entry points cannot be read (%s: %s); %s"
                logging.getLogger(__name__).warning(text, _named(known), type(error).__name__, error, REMEDY)
            continue
        if not stated or (known.name and known.name in seen):
            continue  # it adds nothing, or one of its name stands in a folder before on the path
        seen.add(known.name)
        for each in stated:
            kind, origin = each.group.removeprefix(GROUP), _named(known)
            of_kind = found.setdefault(kind, {})
            of_kind[each.name] = (*of_kind.get(each.name, ()), EntryPoint(kind, each.name, each.value, origin))
    return found


def _named(known: Any) -> str:
    """A package, by its metadata: reading them takes ten times as long as its entry points."""
    return f"package {known.name} {known.version}" if known.name else "a package without a name"


def find(kind: str, name: str) -> EntryPoint | None:
    """What is added of a kind under a name: by a wing, else by another package; None: nothing.

    Raises:
        ExtensionError: two packages have the name.
    """
    if name in of_wings(kind):
        return of_wings(kind)[name]
    found = of_packages(kind).get(name, ())
    if len(found) > 1:
        packages = " and ".join(sorted(each.origin for each in found))
        article = "an" if kind == "exports" else "a"
        text = f"{packages} both have {article} {KINDS[kind]} {name!r}, and only one of them can be meant"
        raise ExtensionError(f"{text}; uninstall one of the packages")
    return found[0] if found else None


def get(kind: str, name: str, wanted: type[T]) -> T:
    """The object that is added of a kind under a name, imported.

    Raises:
        ExtensionError: nothing is added under this name; otherwise as `find` and `EntryPoint.load`.
    """
    if (found := find(kind, name)) is None:
        known = f"choose {', '.join(names(kind))}" if names(kind) else "install the package that adds it"
        near = did_you_mean(name, names(kind)) or known
        raise ExtensionError(f"{name!r} is no {KINDS[kind]} that is installed; {near}".rstrip())
    return found.load(wanted)


def needed(kind: str, name: str) -> Any:
    """The object that a wing of servonode adds under this name, for what the core does only with it.

    Raises:
        ExtensionError: the wing is not there; otherwise as `EntryPoint.load`.
    """
    if name not in of_wings(kind):
        text = f"the {KINDS[kind]} {name!r} is part of a wing of servonode, and that is not in {WINGS}"
        raise ExtensionError(f"{text}; install servonode anew")
    return of_wings(kind)[name].load(object)


def names(kind: str) -> list[str]:
    """The names of all that wings and other packages add of a kind, broken ones too; nothing is imported."""
    return sorted({*of_wings(kind), *of_packages(kind)})
