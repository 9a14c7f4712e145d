"""A Model of a table of texts and numbers, the section [plant.machine] of a launch file: a machine without Python.

Its expressions are in the grammar of residuals (`expression.py`), so nothing of it is ever executed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sympy

from servonode.definitions.source_location import KeyPlace
from servonode.errors import ModelError, did_you_mean
from servonode.mechanics.drawing import Picture, drawing_of
from servonode.mechanics.expression import Expression, ExpressionError, parse
from servonode.mechanics.model import Model
from servonode.mechanics.symbols import (
    Condition,
    Constraint,
    Named,
    Output,
    check_texts,
    condition,
    constraint,
    coordinate,
    derivative,
    first_order,
    input_,
    output,
    parameter,
    time,
    velocity,
)

Expr = Any
Table = Mapping[str, Any]
MOST_NODES = 2000  # of an expression in which terms stand for what they are
RELATION = re.compile(r"([^<>]*)(<=|>=|<|>)([^<>=]*)")
RELATIONS = {"<": sympy.Lt, "<=": sympy.Le, ">": sympy.Gt, ">=": sympy.Ge}
FORCE_UNITS = {"m": "N", "rad": "N m"}  # of an input of which none is stated, by that of the coordinate it acts on
NEEDED = "a number of the machine stands in [plant.machine.parameters], an abbreviation in [plant.machine.terms]; "


def model_of_table(table: Table, section: str) -> Model:
    """The machine that a section of a launch file states, its keys with their defaults.

    Raises:
        ModelError: it cannot be; its place is the key.
    """
    return _Builder(table, section).model()


class _Builder:
    """Makes the symbols of a table, then all that is stated in them; knows at which key it is."""

    def __init__(self, table: Table, section: str) -> None:
        self.table = table
        names = {key: tuple(map(str, each)) for key, each in table.items() if isinstance(each, Mapping)}
        self.place = KeyPlace(section, 0, names=names)
        self.known: dict[str, Expr] = {"t": time}  # what an expression may contain, by name
        self.late: dict[str, Expr] = {}  # and what else one may that is no part of the motion
        self.terms: dict[str, Expr] = {}
        self.sizes: dict[str, int] = {}  # of terms, in nodes

    @contextmanager
    def _at(self, key: str, name: str | None = None) -> Iterator[KeyPlace]:
        """What is refused within is about a key, or an entry of its table."""
        place = self.place.at(key, name)
        try:
            yield place
        except ExpressionError as error:
            error.section, error.key = place.file, place.key
            raise
        except ModelError as error:
            raise ModelError(error.text, place) from None

    def model(self) -> Model:
        """The machine."""
        made: dict[str, Any] = {}
        made["coordinates"] = self._symbols("coordinates", coordinate, "unit")
        velocities = self._symbols("velocities", velocity, "unit")
        grown = self._symbols("first_order", first_order, "", later=("rate",))
        made["parameters"] = self._symbols("parameters", parameter, "default")
        inputs = self._symbols("inputs", self._input, "acts_on")
        self.known |= {each.name: each for each in (*made["coordinates"], *velocities, *grown, *made["parameters"])}
        self.known |= {f"{each.name}_dot": each.rate for each in made["coordinates"]}
        for name, text in self.table["terms"].items():
            self._term(name, text)
        self.late = {f"{each.name}_ddot": each.acceleration for each in made["coordinates"]}
        self.late |= {f"{each.name}_dot": each.rate for each in (*velocities, *grown)}
        self.late |= {each.name: each for each in inputs}
        made |= {word: self._expression(self.table[word], word) for word in ("kinetic", "potential", "dissipation")}
        made["inputs"] = {u: self._entry("inputs", u.name, "acts_on") for u in inputs}
        made["kinematics"] = self._by("kinematics", made["coordinates"])
        made["first_order"] = {i: self._entry("first_order", i.name, "rate", self.late) for i in grown}
        made["forces"] = [
            (self._entry("forces", i, "force"), self._entry("forces", i, "acts_on"))
            for i in range(len(self.table["forces"]))
        ]
        made |= self._independent(made["coordinates"], velocities)
        made["constraints"] = [self._constraint(name) for name in self.table["constraints"]]
        self.late |= {each.quantity.name: each.multiplier for each in made["constraints"]}
        made["outputs"] = [self._output(name) for name in self.table["outputs"]]
        for word in ("requirements", "warnings", "faults"):
            made[word] = [self._condition(word, name) for name in self.table[word]]
        made["safe"] = self._by("safe", inputs, self.late)
        with self._at("drawing") as place:
            drawn = drawing_of(self.table["drawing"], lambda text: self._sympy(text, self.late))
        made["drawing"] = [_placed(each, place) for each in drawn]
        texts = {word: self.table[word] for word in ("name", "description")}
        for word, text in texts.items():
            with self._at(word):
                check_texts("it", **{word: text})
        return Model(**texts, **made, place=self.place)

    def _symbols(
        self, key: str, make: Callable[..., Named], alone: str, later: tuple[str, ...] = ()
    ) -> tuple[Any, ...]:
        """The symbols of a table by name. alone: what an entry that is no table states; later: what is left out."""
        found = []
        for name, stated in self.table[key].items():
            entry = stated if isinstance(stated, Mapping) else {alone: stated}
            given = {word: each for word, each in entry.items() if word not in later and each is not None}
            with self._at(key, name) as place:
                given.setdefault("description", "")
                symbol = make(name, **given)
            symbol.place = place
            found.append(symbol)
        return tuple(found)

    def _input(self, name: str, acts_on: str, unit: str | None = None, **given: Any) -> Named:
        """An input; without a unit that of the force on the coordinate whose rate it acts on."""
        moved = self.table["coordinates"].get(str(acts_on).strip().removesuffix("_dot"), "1")
        of = moved["unit"] if isinstance(moved, Mapping) else moved
        return input_(name, unit=unit or FORCE_UNITS.get(of, "1"), **given)

    def _term(self, name: str, text: str | float) -> None:
        """An abbreviation, with its rate."""
        with self._at("terms", name):
            if not (name.isascii() and name.isidentifier()) or name.endswith(("_dot", "_ddot")):
                raise ModelError("is not a valid name; use ASCII letters, digits and _, without _dot at its end")
            if name in self.known or any(name in names for key, names in self.place.names.items() if key != "terms"):
                raise ModelError("the name is used twice; rename one of them")
            parsed, self.sizes[name] = self._parsed(text, self.known)
            self.known[name] = self.terms[name] = parsed.sympy(self.known)

    def _parsed(self, text: str | float, names: Mapping[str, Expr]) -> tuple[Expression, int]:
        """A checked expression, and its size with the terms in it; the rates of those are made when they are used."""
        rates = {f"{each}_dot": each for each in self.terms}
        parsed = parse(text, {**names, **rates}, unknown=NEEDED)
        for rate in sorted(parsed.names & rates.keys() - self.known.keys()):
            of = self.terms[rates[rate]]
            self.known[rate] = derivative(of)
            self.sizes[rate] = _size(self.known[rate])
        size = parsed.size(self.sizes)
        if size > MOST_NODES:
            text = f"it has {size} terms once {', '.join(sorted(parsed.names & self.sizes.keys()))} are put in"
            raise ModelError(f"{text}; at most {MOST_NODES} are possible: state less")
        return parsed, size

    def _sympy(self, text: str | float, more: Mapping[str, Expr]) -> Expr:
        names = {**more, **self.known}
        parsed, _ = self._parsed(text, names)
        return parsed.sympy({**names, **self.known})

    def _expression(self, text: str | float, key: str, name: str | None = None, more: Table | None = None) -> Expr:
        """What is stated at a key, in symbols."""
        with self._at(key, name):
            return self._sympy(text, more or {})

    def _entry(self, key: str, name: str | int, word: str, more: Table | None = None) -> Expr:
        """What an entry of a table states at a key of its own, or alone."""
        stated = self.table[key][name]
        return self._expression(stated[word] if isinstance(stated, Mapping) else stated, key, f"{name}", more)

    def _by(self, key: str, symbols: tuple[Named, ...], more: Table | None = None) -> dict[Named, Expr]:
        """Expressions by these symbols."""
        by_name = {each.name: each for each in symbols}
        for name in self.table[key]:
            if name not in by_name:
                near, known = did_you_mean(name, by_name), ", ".join(by_name) or "none"
                raise ModelError(f"unknown name; {near}there are: {known}", self.place.at(key, name))
        return {by_name[name]: self._entry(key, name, "", more) for name in self.table[key]}

    def _independent(self, coordinates: tuple[Named, ...], velocities: tuple[Named, ...]) -> dict[str, Any]:
        """The independent coordinates, or velocities with what they are in rates, and the other velocities."""
        stated, by_name = self.table["independent"], {each.name: each for each in velocities}
        if isinstance(stated, Mapping):
            found: Any = {}
            for name in stated:
                with self._at("independent", name) as place:
                    v = by_name.get(name) or velocity(name, "")
                v.place = place
                found[v] = self._entry("independent", name, "")
                self.late |= {name: v, f"{name}_dot": v.rate}
            return {"independent": found, "velocities": tuple(v for v in velocities if v not in found)}
        by_name = {each.name: each for each in coordinates}
        with self._at("independent"):
            for name in stated:
                if name not in by_name:
                    near = did_you_mean(name, by_name)
                    raise ModelError(f"{name!r} is no coordinate; {near}name those that determine the others")
        return {"independent": tuple(by_name[name] for name in stated), "velocities": velocities}

    def _stated(self, key: str, name: str, word: str) -> dict[str, Any]:
        """The entry of a table; of one that is a text this alone, at a key."""
        entry = self.table[key][name]
        given = {word: entry} if not isinstance(entry, Mapping) else dict(entry)
        return {word: each for word, each in given.items() if each is not None}

    def _constraint(self, name: str) -> Constraint:
        given = self._stated("constraints", name, "expression")
        stated = self._expression(given.pop("expression"), "constraints", name)
        with self._at("constraints", name) as place:
            found = constraint(name, stated=stated, **{"description": "", **given})
        found.place = place
        return found

    def _output(self, name: str) -> Output:
        given = self._stated("outputs", name, "expression")
        stated = self._expression(given.pop("expression"), "outputs", name, self.late)
        with self._at("outputs", name) as place:
            found = output(name, expression=stated, **{"description": "", **given})
        self.late = {**self.late, name: found.expression}
        self.sizes[name] = _size(found.expression)
        return Output(found.quantity, found.expression, place)

    def _condition(self, key: str, name: str) -> Condition:
        given = self._stated(key, name, "relation")
        with self._at(key, name) as place:
            sides = RELATION.fullmatch(given["relation"])
            if sides is None:
                text = f"{given['relation']!r} is no relation; write what must hold, such as abs(q) < 1.2"
                raise ModelError(text)
            left, right = (self._sympy(each, self.late) for each in sides.group(1, 3))
            relation = RELATIONS[sides[2]](left, right)
            found = condition(relation, given.get("text") or name, name)
        return Condition(found.margin, found.requirement, found.sides, place)


def _placed(drawn: Any, place: KeyPlace) -> Any:
    """A shape or a view whose place is a key."""
    shapes = {"shapes": tuple(_placed(each, place) for each in drawn.shapes)} if isinstance(drawn, Picture) else {}
    return replace(drawn, place=place, **shapes)


def _size(expression: Expr) -> int:
    """How many nodes a sympy expression has, written out."""
    sizes: dict[Expr, int] = {}
    waiting = [expression]
    while waiting:
        node = waiting[-1]
        if missing := [each for each in node.args if each not in sizes]:
            waiting += missing
        else:
            sizes[waiting.pop()] = 1 + sum(sizes[each] for each in node.args)
    return sizes[expression]
