"""The machine of a robot as the text of a Python file: its links one after the other, each with its parameters."""

import builtins
import json
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy.printing.str import StrPrinter

from servonode.mechanics import links
from servonode.mechanics.description import Quantity
from servonode.mechanics.model import Model
from servonode.mechanics.straight_line import auxiliaries_of
from servonode.mechanics.symbols import Body, Condition, Constraint, Coordinate, Input, Named, Parameter

Expr = Any
COLUMNS = 120
_MECHANICS = (
    "Model ball body condition constraint coordinate frame hinge input_ link parameter slide tree vector velocity"
)
_SYMPY = "Abs Rational acos asin atan atan2 cos exp log sign sin sqrt tan tanh"
_OWN = {"model", "links", "tree_of_links"}
_TAKEN = {*_MECHANICS.split(), *_SYMPY.split(), *_OWN, *dir(builtins), *keyword.kwlist}
_ZERO = (0, 0, 0)
_UNIT = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


class Group(NamedTuple):
    """Entries between brackets, such as the arguments of a call."""

    head: str
    entries: Sequence[Any]  # texts and groups
    tail: str = ")"

    def __str__(self) -> str:
        return f"{self.head}{', '.join(map(str, self.entries))}{self.tail}"


def laid_out(part: Any, indent: int) -> str:
    """The text of a part that begins a line: in as few lines as fit, as `ruff format` has them."""
    if indent + len(str(part)) < COLUMNS or not isinstance(part, Group):
        return str(part)
    pad, within = " " * indent, ", ".join(map(str, part.entries))
    if part.head.endswith("(") and indent + 4 + len(within) <= COLUMNS:
        return f"{part.head}\n{pad}    {within}\n{pad}{part.tail}"
    lines = "".join(f"{pad}    {laid_out(each, indent + 4)},\n" for each in part.entries)
    return f"{part.head}\n{lines}{pad}{part.tail}"


def source(model: Model, name: str, file: str) -> str:
    """The text of a file whose function `model` returns this machine, a tree. file: of which it is made."""
    return _Writer(model, name, file).text()


class _Printer(StrPrinter):  # type: ignore[misc]
    """Expressions in the names of the file."""

    def __init__(self, texts: Mapping[Expr, str]) -> None:
        super().__init__()
        self.texts = texts

    def _print_Symbol(self, expr: Expr) -> str:
        return self.texts[expr] if expr in self.texts else f"({self._print(expr.definition)})"  # of an auxiliary symbol

    def _print_Float(self, expr: Expr) -> str:
        return repr(float(expr))

    def _print_Rational(self, expr: Expr) -> str:
        return repr(float(expr)) if sympy.Rational(repr(float(expr))) == expr else f"Rational({expr.p}, {expr.q})"


class _Writer:
    """Writes each symbol before its first use. texts: what the file calls each symbol."""

    def __init__(self, model: Model, name: str, file: str) -> None:
        assert model.tree is not None
        self.model, self.tree, self.name, self.file = model, model.tree, name, file
        self.texts: dict[Expr, str] = {}
        multipliers = [each.multiplier for each in model.constraints]
        for each in (*model.coordinates, *model.velocities, *model.inputs, *model.parameters, *multipliers):
            word = getattr(each, "vector", None) or each.name
            text = f"{word}_" if word in _TAKEN else word
            text += f"[{each.name.removeprefix(word + '_')}]" if word != each.name else ""
            of = getattr(each, "of", None)
            self.texts[each] = text if of is None else f"{self.texts[of]}.own_velocity()"
            self.texts |= {each.rate: f"{text}.rate"} if isinstance(each, Coordinate) else {}
        self._written: set[Expr] = set()

    def text(self) -> str:
        """The whole file."""
        body = "\n".join(f"    {laid_out(each, 4)}" if each else "" for each in self._statements())
        words = set(re.findall(r"\w+", body))
        of_sympy = [each for each in _SYMPY.split() if f"{each}(" in body and each in words]
        imports = [f"from sympy import {', '.join(of_sympy)}\n"] if of_sympy else []
        names = Group("from servonode.mechanics import (", [each for each in _MECHANICS.split() if each in words])
        line = str(names._replace(head=names.head[:-1], tail=""))
        imports.append(f"{line if len(line) <= COLUMNS else laid_out(names, 0)}\n")
        file = re.sub(r"[^\w. -]", "_", self.file)  # as it may stand in a docstring
        what = f"{self.name}: the machine of the robot's file {file}"
        units = "Lengths are in m, angles in rad; a link's axes, centre and inertia are its own."
        heading = f'"""{what}.\n\n{units}\n"""\n\n'
        function = f'def model() -> Model:\n    """The machine: {len(self.tree.links)} links."""\n{body}\n'
        return heading + "\n".join(imports) + "\n\n" + function

    def _statements(self) -> Iterator[Any]:
        """The statements of the function; "" for an empty line."""
        yield from self._new(_symbols(self.tree.gravity))
        yield "links = []"
        for each in self.tree.links:
            yield ""
            yield f"# {each.name}"
            yield from self._new(symbol for joint in each.joints for symbol in (*joint.coordinates, *joint.motions))
            yield from self._new(_symbols((each,)))
            yield Group("links.append(", [self._link(each)])
        yield ""
        yield from self._new((*self.model.coordinates, *self.model.velocities, *self.model.parameters))
        yield from self._new(self.model.inputs)
        yield ""
        named = ((_quoted(each.name), _quoted(each.link), *self._placed(each)) for each in self.tree.frames)
        frames = [Group("frame(", arguments) for arguments in named]
        gravity = [f"gravity={self._entries(self.tree.gravity)}"]
        more = [Group("frames=[", frames, "]")] if frames else []
        yield Group("tree_of_links = tree(", ["links", *gravity, *more])
        self._name_places()
        yield from map(self._constraint, self.model.constraints)
        yield Group("return Model(", list(self._arguments()))

    def _name_places(self) -> None:
        """Let what constraints, motors and tendons contain of the tree's places be called by their frames."""
        model = self.model
        stated = [*model.inputs.values(), model.potential, *(on for _, on in model.forces)]
        if not model.constraints and not any(map(auxiliaries_of, stated)):
            return
        for name in (*(each.name for each in self.tree.frames), *(each.name for each in self.tree.links)):
            located = self.tree[name]
            for word in ("position", "rotation", "velocity", "angular_velocity"):
                entries = getattr(located, word)
                names = {each: f"tree_of_links[{_quoted(name)}].{word}[{i}]" for i, each in enumerate(entries)}
                self.texts = {each: text for each, text in names.items() if each.is_Symbol} | self.texts

    def _new(self, symbols: Iterable[Expr]) -> Iterator[Group]:
        """The statements of what is not yet written, of a vector as a whole."""
        for each in symbols:
            of_coordinate = getattr(each, "of", None) is not None  # a velocity without a statement of its own
            if each in self._written or not isinstance(each, Named) or of_coordinate:
                continue
            vector = [entry for entry in self.texts if each.vector and getattr(entry, "vector", None) == each.vector]
            self._written |= {each, *vector}
            yield self._vector(vector) if vector else self._symbol(each)

    def _symbol(self, each: Named) -> Group:
        """The statement of a scalar."""
        word = "input_" if isinstance(each, Input) else type(each).__name__.lower()
        default = "default" if isinstance(each, Parameter) else "start"
        return Group(f"{self.texts[each]} = {word}(", _quantity(each.quantity, default))

    def _vector(self, entries: Sequence[Any]) -> Group:
        first = entries[0]
        word, q = type(first).__name__.lower(), first.quantity
        start = [each.quantity.default or 0.0 for each in entries]
        arguments = [word, _quoted(first.vector), _quoted(q.description.removesuffix(", entry 0")), _quoted(q.unit)]
        arguments += [f"start={_tuple(map(_number, start))}"] if any(start) else []
        return Group(f"{self.texts[first].removesuffix('[0]')} = vector(", arguments)

    def _link(self, each: links.Link) -> Group:
        joints = Group("joints=[", [self._joint(joint) for joint in each.joints], "]")
        arguments = [_quoted(each.name), *([_quoted(each.parent)] if each.parent else []), *self._placed(each)]
        arguments += [joints] if each.joints else []
        arguments += [f"mass={self._print(each.mass)}"] if each.mass != 0 else []
        arguments += [f"centre={self._entries(each.centre)}"] if any(each.centre) else []
        rows = [self._entries(row) for row in each.inertia]
        arguments += [Group("inertia=(", rows)] if any(map(any, each.inertia)) else []
        return Group("link(", arguments)

    def _placed(self, each: links.Link | links.Frame) -> Iterator[Any]:
        if each.position != _ZERO:
            yield f"position={self._entries(each.position)}"
        if each.rotation != _UNIT:
            yield Group("rotation=(", [self._entries(row) for row in each.rotation])

    def _joint(self, each: links.Joint) -> Group:
        if each.kind == "ball":
            arguments = [self.texts[entries[0]].removesuffix("[0]") for entries in (each.coordinates, each.motions)]
        else:
            arguments = [self.texts[each.coordinates[0]]]
            arguments += [self._entries(each.axis)] if each.axis != _UNIT[2] else []
        arguments += [f"armature={self._print(each.armature)}"] if each.armature != 0 else []
        return Group(f"{each.kind}(", arguments)

    def _arguments(self) -> Iterator[Any]:
        """The arguments of Model(...); what the tree says of itself is left out."""
        model = self.model
        yield f"name={_quoted(self.name)}"
        yield f"description={_quoted(model.description)}"
        yield "tree=tree_of_links"
        if tuple(model.coordinates) != tuple(self.tree.rates):
            yield Group("coordinates=[", [self.texts[each] for each in model.coordinates], "]")
        yield Group("parameters=[", [self.texts[each] for each in model.parameters], "]")
        for word in ("kinetic", "potential", "dissipation"):
            if (energy := getattr(model, word)) != 0:
                terms = [f"{word}=", *map(self._print, sympy.Add.make_args(energy))]
                yield Group(f"{word}=sum([", terms[1:], "])") if len(terms) > 2 else "".join(terms)
        if model.bodies:
            yield Group("bodies=[", [self._body(each) for each in model.bodies], "]")
        if model.forces:
            yield Group("forces=[", [f"({self._print(force)}, {self._print(on)})" for force, on in model.forces], "]")
        yield Group("inputs={", [f"{self.texts[u]}: {self._print(on)}" for u, on in model.inputs.items()], "}")
        if model.constraints:
            yield Group("constraints=[", [self.texts[each.multiplier] for each in model.constraints], "]")
        if isinstance(model.independent, Mapping):
            pairs = [f"{self.texts[v]}: {self._print(rate)}" for v, rate in model.independent.items()]
            yield Group("independent={", pairs, "}")
        elif model.independent:
            yield Group("independent=[", [self.texts[each] for each in model.independent], "]")
        for word in ("warnings", "faults"):
            if stated := [each for each in getattr(model, word) if each.requirement.name != "dead_point"]:
                yield Group(f"{word}=[", list(map(self._condition, stated)), "]")
        if model.notes:
            yield Group("notes=[", list(map(_quoted, model.notes)), "]")

    def _body(self, each: Body) -> Group:
        """An inertia that moves in one way."""
        words = ("mass", "velocity", each.mass, each.velocity)
        words = words if len(each.velocity) else ("inertia", "angular_velocity", each.inertia[0], each.angular_velocity)
        of, motion, size, rates = words
        return Group("body(", [_quoted(each.name), f"{of}={self._print(size)}", f"{motion}=[{self._print(rates[0])}]"])

    def _constraint(self, each: Constraint) -> Group:
        name, description, unit = _quantity(each.quantity, "default")[:3]
        stated = self._print(each.row if each.finite is None else each.finite)
        return Group(f"{self.texts[each.multiplier]} = constraint(", [name, description, stated, unit])

    def _condition(self, each: Condition) -> Group:
        greater, lesser = map(self._print, each.sides)
        equal = "" if each.requirement.strict else "="
        at_most = isinstance(each.sides[1], Coordinate)
        relation = f"{lesser} <{equal} {greater}" if at_most else f"{greater} >{equal} {lesser}"
        return Group("condition(", [relation, _quoted(each.requirement.text), _quoted(each.requirement.name)])

    def _entries(self, entries: Iterable[Expr]) -> str:
        return _tuple(map(self._print, entries))

    def _print(self, expression: Expr) -> str:
        return str(_Printer(self.texts).doprint(expression))


def _symbols(stated: Iterable[Any]) -> list[Any]:
    """The symbols of expressions or links, by name."""
    return sorted({symbol for each in stated for symbol in each.free_symbols}, key=str)


def _quantity(q: Quantity, default: str) -> list[str]:
    """The arguments that make a symbol of this quantity; the default value is called `start` or `default`."""
    numbers = {default: q.default, "above": q.above, "at_least": q.at_least}
    numbers |= {"limit": q.limit, "rate_limit": q.rate_limit}
    stated = [f"{word}={_number(x)}" for word, x in numbers.items() if x is not None and (word, x) != ("start", 0)]
    return [_quoted(q.name), _quoted(q.description), _quoted(q.unit), *stated]


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e6 else repr(float(value))


def _tuple(texts: Iterable[str]) -> str:
    return f"({', '.join(texts)})"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
