"""Where the definition of a machine or program is: packaged, in an installed package, or beside the launch file.

A definition is a function in a Python source. Its options and the digest of all sources it imports are read from the
text, without running it: what is in the cache needs neither the user's file nor sympy to be executed.
"""

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import pickle
import re
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from servonode import extensions
from servonode.definitions.ownership import open_to_all
from servonode.definitions.source_location import Place
from servonode.errors import ModelError, ServonodeError, StatementError, did_you_mean
from servonode.kernels.syntax import syntax_tree

_SITE = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib"))
_INSTALLED = {"site-packages", "dist-packages"}  # the same, of another environment on PYTHONPATH
_OURS = "servonode"
PLANT = "plant"  # the first argument of a function that makes a controller
NO_DATA = (".py", ".toml", ".mcap", ".new")  # endings of sources, of what servonode reads or writes, and of drafts
SOURCES = "sources"  # the kind of extension that reads machines from files, by the endings of their names
Kind = Literal["function", "robot", "file", "module", "name"]
CODE: tuple[Kind, ...] = ("function", "file", "module")  # those of Python code
_DEFINED_IN = ("controllers", "plants")  # the rooms with machines and programs


_running = threading.RLock()  # of a user's source: what it imports, and where it prints, are the whole process's
_process = os.urandom(4).hex()  # of references to functions: process numbers are used again, and pickles kept


def _renew() -> None:
    """Let a forked process run sources, whatever thread of its parent did when it was forked, and name its own."""
    global _running, _process
    _running, _process = threading.RLock(), os.urandom(4).hex()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


_REMEDIES = {  # of what users' sources raise
    "^ModuleNotFoundError": "install it here, or correct this line",
    "Cannot convert expression to float|loop of ufunc": "take cos and the like from sympy, not from math or numpy",
    "'(Coordinate|Velocity|FirstOrder)' object has no attribute": "a rate is written .rate, as x.rate",
    "unexpected keyword argument": "correct its name, or leave it out",
}


class NotFound(StatementError):
    """A reference that leads nowhere; the text says what is wrong and how to fix it."""


@dataclass(frozen=True)
class Option:
    """An argument of a definition that a launch file may set: its default, and the choices where they are listed."""

    name: str
    default: str | float | bool
    choices: tuple[str, ...] = ()

    def complaint(self, value: object) -> str | None:
        """Why the value cannot be given, or None."""
        if self.choices:
            if value in self.choices:
                return None
            near = did_you_mean(str(value), self.choices)
            return f"{value!r} is unknown; {near}choose {', '.join(sorted(self.choices))}"
        words = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}
        kind = type(self.default)
        fits = isinstance(value, (int, float) if kind is float else kind) and (kind is bool) == isinstance(value, bool)
        return None if fits else f"{value!r} is not {words[kind]}; give one (default {self.default!r})"


@dataclass(frozen=True)
class Definition:
    """A function `function` in `file` that states a machine or a program.

    `module` is its importable name; None for a file that is run by its path.
    """

    reference: str
    file: Path
    function: str
    module: str | None = None

    @functools.cached_property
    def options(self) -> dict[str, Option]:
        """The arguments with defaults, by name, as they stand in the source.

        Raises:
            ModelError: the source cannot be parsed, has no such function, or a default is not a number, text or flag.
        """
        return {option.name: option for option in _options(self._syntax(), self)}

    def digest(self, *arguments: Any, **options: Any) -> str:  # noqa: ARG002  (the sources do not depend on them)
        """A digest of the source, of all sources beside it that it imports, installed packages not followed, and data.

        It is the same in whatever folders they stand.
        """
        digest = hashlib.sha256(self.function.encode())
        files = _reached(self.file.resolve()) | (self.sources() if self.module is None else set())
        for name, source in sorted((file.name, file.read_bytes()) for file in files):
            digest.update(name.encode() + b"\0" + source + b"\0")
        return digest.hexdigest()

    def readers(self) -> list[str]:
        """What reads the file, for keys of the cache: libraries with their versions, digests of code."""
        return []

    def sources(self) -> set[Path]:
        """The user's files: its source, all that it imports, and the data of these; nothing installed."""
        ours = Path(__file__).resolve().parents[1]
        sources = {file for file in _reached(self.file.resolve()) if not file.is_relative_to(ours)}
        return sources.union(*map(_data, sources))

    def from_folder(self, folder: str) -> str:
        """How a launch file refers to it, whose file now stands at this path from there."""
        return f"./{folder}:{self.function}"

    @property
    def place(self) -> Place:
        """The line of the function."""
        node = _function(self._syntax(), self.function)
        return Place(str(self.file), node.lineno if node else 1)

    @property
    def takes_plant(self) -> bool:
        """Whether it states a controller: a class, or a function whose first argument is called `plant`."""
        node = _function(self._syntax(), self.function)
        if isinstance(node, ast.ClassDef):
            return True
        return node is not None and [each.arg for each in (*node.args.posonlyargs, *node.args.args)][:1] == [PLANT]

    def call(self, *arguments: Any, **options: Any) -> Any:
        """What the function returns.

        Raises:
            ModelError: the source or the function fails; the text names its line.
        """
        return self.run(lambda: getattr(self._load(), self.function)(*arguments, **options))

    def states(self, name: str, *seen: Path) -> bool:
        """Whether the source, or a user's own from which it imports all, contains this name; none is run."""
        source, file = self.file.read_bytes(), self.file.resolve()
        if name.encode() not in source and b"import *" not in source:
            return False
        nodes = ast.walk(self._syntax())
        if any(name in (getattr(each, word, None) for word in ("id", "name", "asname")) for each in nodes):
            return True
        stars = {each for star in _imports(source) if star.endswith("*") for each in _sources(star, file)}
        return any(Definition("", each, "").states(name, file, *seen) for each in stars.difference((file, *seen)))

    def attribute(self, name: str) -> Any:
        """A name of the module beside the function, None where it has none; raises as `call`.

        What a module imports from another one is taken from there, without running the function's own module, which
        would import sympy.
        """
        return self.run(lambda: getattr(self._holder(name), name, None))

    def run(self, work: Callable[[], Any]) -> Any:
        """The result of something that runs this source's code, with its neighbours; raises as `call`."""
        with _neighbours(self.file) if self.module is None else contextlib.nullcontext():
            return self._run(work)

    def _run(self, work: Callable[[], Any]) -> Any:
        """The result of running a user's source; what it raises becomes a ModelError at its own line.

        What it prints goes to stderr, for stdout may be read by a program.
        """
        try:
            with _running, contextlib.redirect_stdout(sys.stderr):
                return work()
        except ModelError:
            raise
        except (Exception, SystemExit) as error:
            raise self.explain(error) from error

    def explain(self, error: BaseException) -> ModelError:
        """What this source's code has raised, at its own line: the deepest one in the user's files."""
        files, frames = _reached(self.file.resolve()), traceback.extract_tb(error.__traceback__)
        lines = [each for each in frames if Path(each.filename).resolve() in files]
        place = Place(lines[-1].filename, lines[-1].lineno or 1) if lines else self.place
        if isinstance(error, SyntaxError) and error.filename:
            place = Place(error.filename, error.lineno or 1)
        if isinstance(error, ServonodeError):  # which says how to correct it
            return ModelError(str(error), place)
        text = f"{type(error).__name__}: {error}"
        remedy = next((remedy for found, remedy in _REMEDIES.items() if re.search(found, text)), "correct this line")
        return ModelError(f"{text}; {remedy}", place)

    def _syntax(self) -> ast.Module:
        try:
            return _parsed(self.file.read_bytes())
        except SyntaxError as error:
            raise ModelError(f"bad syntax: {error.msg}", Place(str(self.file), error.lineno or 1)) from error
        except ValueError as error:
            raise ModelError(f"{self.file.name} is not Python source ({error})") from error

    def _holder(self, name: str) -> ModuleType:
        """The module that states a name of this definition's module."""
        imports = (node for node in self._syntax().body if isinstance(node, ast.ImportFrom) and not node.level)
        elsewhere = [node.module for node in imports if any((each.asname or each.name) == name for each in node.names)]
        return importlib.import_module(elsewhere[0]) if self.module and elsewhere and elsewhere[0] else self._load()

    def _load(self) -> ModuleType:
        if self.module is not None:
            return importlib.import_module(self.module)
        name = f"servonode_file_{hashlib.sha256(str(self.file.resolve()).encode()).hexdigest()[:16]}"
        spec = importlib.util.spec_from_file_location(name, self.file)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and pickle look their module up
        code = compile(self.file.read_bytes(), str(self.file), "exec")  # what was compiled before may be another's
        exec(code, module.__dict__)  # noqa: S102  (the user's own text, as an import would)
        return module


@dataclass(frozen=True)
class FunctionDefinition(Definition):
    """A function at hand, as in a notebook: identified by what it returns, for no file holds all that it depends on."""

    stated: Callable[..., Any] = lambda: None

    @functools.cached_property
    def options(self) -> dict[str, Option]:
        parameters = inspect.signature(self.stated).parameters.values()
        given = [each for each in parameters if each.default is not inspect.Parameter.empty]
        choices = {each.name: get_args(each.annotation) if isinstance(each.default, str) else () for each in given}
        return {each.name: Option(each.name, each.default, choices[each.name]) for each in given}

    def digest(self, *arguments: Any, **options: Any) -> str:
        """A digest of what the function returns for these arguments."""
        return hashlib.sha256(_fingerprint(self.call(*arguments, **options)).encode()).hexdigest()

    @property
    def place(self) -> Place:
        code = _code(self.stated)
        return Place(str(self.file), code.co_firstlineno if code else 1)

    @property
    def takes_plant(self) -> bool:
        if inspect.isclass(self.stated):
            return True
        return next(iter(inspect.signature(self.stated).parameters), "") == PLANT

    def call(self, *arguments: Any, **options: Any) -> Any:
        return self._run(lambda: self.stated(*arguments, **options))

    def states(self, name: str, *seen: Path) -> bool:  # noqa: ARG002
        return name in getattr(self.stated, "__globals__", {})

    def attribute(self, name: str) -> Any:
        return getattr(self.stated, "__globals__", {}).get(name)

    def __reduce__(self) -> Any:
        """Pickle what it refers to, or what that returns where it takes no arguments, as a lambda of a Model.

        Raises StatementError where another process could not find that.
        """
        try:
            pickle.loads(pickle.dumps(self.stated))
        except Exception as error:  # pickle raises many kinds
            if not inspect.signature(self.stated).parameters:
                return _known, (self.reference, functools.partial(_finished, self.call()))
            text = f"{self.reference} is of this process alone, and cannot be pickled ({error})"
            raise StatementError(f"{text}; write it into a file, and name the file") from error
        return _known, (self.reference, self.stated)

    def __deepcopy__(self, memo: dict[int, Any]) -> "FunctionDefinition":
        return self


def _fingerprint(stated: Any) -> str:
    """Everything that a Model or Program states, without the source lines: what tells apart those of no file."""
    import sympy

    if isinstance(stated, sympy.MatrixBase | sympy.Basic):
        symbols = sorted(stated.free_symbols, key=str)
        quantities = [repr(getattr(each, "quantity", "")) + getattr(each, "default", "") for each in symbols]
        return f"{sympy.srepr(stated)} of {quantities}"
    if hasattr(stated, "identity"):
        return _fingerprint(stated.identity())
    if is_dataclass(stated):
        parts = (f"{each.name}: {_fingerprint(getattr(stated, each.name))}" for each in fields(stated))
        return "\n".join(part for part in parts if not part.startswith("place: "))
    if isinstance(stated, Mapping):
        return "{" + ", ".join(f"{_fingerprint(key)}: {_fingerprint(value)}" for key, value in stated.items()) + "}"
    if isinstance(stated, Sequence) and not isinstance(stated, str):
        return "[" + ", ".join(map(_fingerprint, stated)) + "]"
    return repr(stated)


def _code(stated: Any) -> Any:
    """The code of a function, or of the first method of a class; None of what is not written in Python."""
    methods = vars(stated).values() if inspect.isclass(stated) else (stated,)
    return next((each.__code__ for each in methods if hasattr(each, "__code__")), None)


_OF_PYTHON: dict[str, FunctionDefinition] = {}


def reference_to(stated: Any) -> str:
    """The reference of a function, or of a finished Model or Program, for use in a launch file's mappings."""
    function = stated if callable(stated) else functools.partial(_finished, stated)
    name = str(getattr(stated, "__name__", getattr(stated, "name", "function")))
    return _known(f"<{name} {_process} {id(stated):x}>", function).reference


def _finished(stated: Any, *_: Any) -> Any:
    """What is finished needs no arguments."""
    return stated


def _known(reference: str, function: Callable[..., Any]) -> FunctionDefinition:
    """The definition of a function, which this process now knows by its reference."""
    code = _code(function)
    file, name = Path(code.co_filename if code else "<function>"), reference.split()[0].removeprefix("<")
    return _OF_PYTHON.setdefault(reference, FunctionDefinition(reference, file, name, stated=function))


def ending_of(reference: str) -> str:
    """The ending of a file that a wing or another package reads as a machine, as "urdf"; empty of all others."""
    _, dot, ending = reference.lower().rpartition(".")
    if ending in extensions.of_wings(SOURCES):
        return ending if dot else ""
    known = not ending.isalnum() or f".{ending}" in NO_DATA  # so that these look at no installed package
    return ending if dot and not known and ending in extensions.of_packages(SOURCES) else ""


def kind_of(reference: str) -> Kind:
    """What a reference in a launch file leads to: a robot's file is read, and never run; a name is of what is known.

    The others are Python code: a function of this process, or one in a file or a module.
    """
    if reference in _OF_PYTHON:
        return "function"
    if ending_of(reference):
        return "robot"
    if ".py:" in reference or "/" in reference or reference.endswith(".py"):
        return "file"
    return "module" if ":" in reference else "name"


def find(reference: str, packaged: Mapping[str, str], folder: Path, word: str) -> Definition:
    """The definition of a reference in a launch file that stands in `folder`.

    A reference is a name in `packaged` (name -> module) or of an extension, "package.module:function", or
    "./file.py:function" relative to `folder`. `word` is "machine" or "program".

    Raises:
        NotFound: there is nothing at the reference.
    """
    if reference in _OF_PYTHON:
        return _OF_PYTHON[reference]
    place, colon, function = reference.rpartition(":")
    if kind_of(reference) in ("file", "robot"):
        if not (colon or reference.endswith(".py")):
            text = "is neither a function of a Python file nor a file of which anything here reads machines"
            raise NotFound(f'{reference!r} {text}; write "./my_{word}.py:{_usual(word)}", or install what reads it')
        return _in_file(reference, place, function, folder, word)
    if colon:
        return _in_module(reference, place, function, word)
    if reference in packaged:
        return _in_module(reference, packaged[reference], _usual(word), word)
    added = extensions.find(f"{word}s", reference)
    if added is not None:
        place, colon, function = added.reference.rpartition(":")
        try:
            return _in_module(reference, place, function, word)
        except (Exception, SystemExit) as error:
            what = f"{added.origin}: its {word} {reference!r} ({added.reference})"
            raise NotFound(f"{what} cannot be used ({type(error).__name__}: {error}); {extensions.REMEDY}") from error
    near = did_you_mean(reference, [*packaged, *extensions.names(f"{word}s")], most=3)
    raise NotFound(
        f"{reference!r} is unknown; {near}choose a name that servonode list {word}s shows, or give your own as "
        f'"./my_{word}.py:{_usual(word)}" beside the launch file'
    )


def _data(source: Path) -> Iterator[Path]:
    """The files beside a source that have its name with an ending that it speaks of, as policy.onnx of policy.py."""
    text = source.read_bytes() if source.is_file() else b""
    for file in source.parent.iterdir() if text else ():
        is_data = file.stem == source.stem and file.suffix not in NO_DATA and file.suffix.encode() in text
        if is_data and file.suffix and file.is_file():
            yield file


def _usual(word: str) -> str:
    return "model" if word == "machine" else "program"


def _in_file(reference: str, place: str, function: str, folder: Path, word: str) -> Definition:
    if reference.endswith(".py"):
        raise NotFound(f'{reference!r} names no function in the file; write "{reference}:{_usual(word)}"')
    file = folder / place
    if not file.is_file():
        raise NotFound(f"there is no file {file}; the path is relative to the launch file's folder")
    for each in sorted({each.parent for each in _reached(file.resolve())}):
        if common := open_to_all(each):
            text = f"every user of this computer can put files into {common}, so no code is run from there"
            raise NotFound(f"{text}; move {file.name} to a folder of your own")
    return _checked(Definition(reference, file, function), word)


def _in_module(reference: str, module: str, function: str, word: str) -> Definition:
    try:
        spec = importlib.util.find_spec(module)
    except Exception as error:  # its parents run
        raise NotFound(f"{reference!r}: the package of {module!r} cannot be imported ({error}); fix it") from error
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise NotFound(
            f"{reference!r}: there is no Python module {module!r} here; install it, or write "
            f'"./{module}.py:{function}" for a file beside the launch file'
        )
    return _checked(Definition(reference, Path(spec.origin), function, module), word)


def _checked(definition: Definition, word: str) -> Definition:
    """The definition, when its file states the function; one import of it from elsewhere is followed."""
    tree = definition._syntax()
    if _function(tree, definition.function):
        return definition
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    if definition.module is not None:
        stated = getattr(importlib.import_module(definition.module), definition.function, None)
        origin = getattr(stated, "__module__", None)
        if callable(stated) and origin not in (None, definition.module):
            return _in_module(definition.reference, origin, definition.function, word)
    raise NotFound(
        f"{definition.reference!r}: {definition.file.name} has no function {definition.function!r}; "
        f"define it with def, or choose {', '.join(functions) or 'another file'}"
    )


def _function(tree: ast.Module, name: str) -> ast.FunctionDef | ast.ClassDef | None:
    found = (each for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef) and each.name == name)
    return next(found, None)


def _options(tree: ast.Module, definition: Definition) -> Iterator[Option]:
    node = _function(tree, definition.function)
    assert node is not None  # looked up when it was found
    for name, annotation, value in _defaults(node):
        place = Place(str(definition.file), value.lineno)
        default = _value(tree, value)
        if not isinstance(default, str | int | float | bool):
            text = f"the default of option {name!r} is not a number, a text or a boolean; give one, or a name of "
            text += "this file to which one is assigned"
            raise ModelError(text, place)
        yield Option(name, default, _literal(annotation))


def _value(tree: ast.Module, node: ast.expr | None) -> Any:
    """The value of a literal, or of a name to which the file assigns one; None where it is neither."""
    if isinstance(node, ast.Name):
        given = [each for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign)]
        names = [(each.targets if isinstance(each, ast.Assign) else [each.target], each.value) for each in given]
        values = [value for targets, value in names for each in targets if getattr(each, "id", "") == node.id]
        node = values[-1] if values else None
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _defaults(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[str, ast.expr | None, ast.expr]]:
    """Name, annotation and default of each argument that has one; of a class those of its construction.

    A class without `__init__` is a dataclass, whose fields are its arguments.
    """
    if isinstance(node, ast.ClassDef):
        made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
        if made is None:
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value is not None:
                    yield each.target.id, each.annotation, each.value
            return
        node = made
    positional = [*node.args.posonlyargs, *node.args.args]
    stated = [*zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True)]
    by_name = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    stated += [(argument, value) for argument, value in by_name if value is not None]
    for argument, value in stated:
        yield argument.arg, argument.annotation, value


def _literal(annotation: ast.expr | None) -> tuple[str, ...]:
    """The choices of an annotation Literal["a", "b"]."""
    if not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("Literal")):
        return ()
    inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    return tuple(each.value for each in inner if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _reached(file: Path) -> set[Path]:
    """The file and, in turn, the sources it imports that are neither installed nor Python's own."""
    found: set[Path] = set()
    waiting = [file]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        if not file.is_file():  # what was typed into an interpreter or a notebook
            continue
        waiting += [each for name in _imports(file.read_bytes()) for each in _sources(name, file)]
    return found


@functools.lru_cache(maxsize=64)
def _parsed(source: bytes) -> ast.Module:
    tree: ast.Module = syntax_tree(source)
    return tree


@functools.lru_cache(maxsize=256)
def _imports(source: bytes) -> tuple[str, ...]:
    """Dotted names that a source imports; relative ones begin with dots."""
    try:
        tree = _parsed(source)
    except (SyntaxError, ValueError):
        return ()
    names: list[str] = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names += [base, *(f"{base}{'' if base.endswith('.') else '.'}{alias.name}" for alias in node.names)]
    return tuple(names)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a source, nested ones too; expressions, which are most of it, are not looked into."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(tree, name, ()):
            yield each
            yield from _statements(each)


def _sources(name: str, importer: Path) -> list[Path]:
    """The files of a dotted name as seen from the importing file; empty for installed ones and Python's own.

    Of servonode itself only what machines and programs may share; the engine's sources are in every cache key anyway.
    """
    stripped = name.lstrip(".")
    top = stripped.partition(".")[0]
    if name != stripped:
        folder = importer.parent
        for _ in range(len(name) - len(stripped) - 1):
            folder = folder.parent
        return _files(folder, stripped)
    if top == _OURS:
        _, room, *module = (*stripped.split("."), "")
        return _files(Path(__file__).parents[1] / room, ".".join(filter(None, module))) if room in _DEFINED_IN else []
    if top in sys.stdlib_module_names:
        return []
    beside = _files(importer.parent, stripped)
    return beside or [each for folder in _roots(top) for each in _files(folder, stripped)]


@functools.cache
def _roots(top: str) -> tuple[Path, ...]:
    """The folder in which a top-level module stands, unless it is installed."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return ()
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return ()
    origin = Path(spec.origin).resolve()
    if any(origin.is_relative_to(site) for site in _SITE) or _INSTALLED.intersection(origin.parts):
        return ()
    return (origin.parent.parent if origin.name == "__init__.py" else origin.parent,)


def _files(folder: Path, dotted: str) -> list[Path]:
    """The sources that importing a dotted name from a folder runs."""
    found: list[Path] = []
    for part in filter(None, dotted.split(".")):
        package, module = folder / part / "__init__.py", folder / f"{part}.py"
        if package.is_file():
            found.append(package.resolve())
        elif module.is_file():
            found.append(module.resolve())
            break
        folder = folder / part
    return found


@contextmanager
def _neighbours(file: Path) -> Iterator[None]:
    """Let a file import its neighbours, and them only: others of the same names leave sys.modules meanwhile.

    So two folders may use the same names, and an edited neighbour is read again. One thread does so at a time.
    """
    folder = file.resolve().parent
    names = {each.stem for each in folder.glob("*.py")} | {each.parent.name for each in folder.glob("*/__init__.py")}
    with _running:
        aside = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}
        for name in aside:
            del sys.modules[name]
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode  # an edit within a second would be missed
        try:
            yield
        finally:
            sys.dont_write_bytecode = before
            sys.path.remove(str(folder))
            for name in [name for name in sys.modules if name.partition(".")[0] in names]:
                del sys.modules[name]
            sys.modules.update(aside)
