"""Several machines as one: each with its own prefix to all names."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import sympy

from servonode.definitions.source_location import here
from servonode.errors import ModelError
from servonode.mechanics.description import Quantity
from servonode.mechanics.drawing import Picture
from servonode.mechanics.model import ENERGIES, MAPPINGS, SEQUENCES, Model
from servonode.mechanics.sensors import Sensor
from servonode.mechanics.symbols import Condition, Constraint, Coordinate, Jump, Named, Rate, before, condition
from servonode.mechanics.trees import Tree

Expr = Any


def together(name: str, description: str, /, **machines: Model) -> Model:
    """One machine of several, all names with their machine's prefix: `together("train", "two carts", left=a, right=b)`.

    `left_x` is then what was `x`: coordinates, velocities, parameters, inputs, constraints, outputs, sensors, faults.
    `Model.coupled` adds what acts between them.

    Raises:
        ModelError: one is not a Model, or has velocities of its own beside another whose loops are solved for.

    >>> from servonode.mechanics import Model, coordinate, together
    >>> x = coordinate("x", "place", "m")
    >>> cart = Model(name="cart", description="a cart", coordinates=(x,), kinetic=x.rate**2 / 2)
    >>> train = together("train", "two carts", left=cart, right=cart)
    >>> [each.name for each in train.coordinates]
    ['left_x', 'right_x']
    """
    what = f"together({name!r})"
    for prefix, model in machines.items():
        if not isinstance(model, Model):
            raise ModelError(
                f"{what}: {prefix}={model!r} is not a Model; give the result of a machine's function", here()
            )
    if not machines:
        raise ModelError(f"{what}: no machines are given; write them as left=..., right=...", here())
    parts = [_prefixed(model, f"{prefix}_") for prefix, model in machines.items()]
    joined: dict[str, Any] = {word: sympy.Add(*(part[word] for part in parts)) for word in ENERGIES}
    joined |= {
        word: tuple(each for part in parts for each in part[word]) for word in (*SEQUENCES, "panels", "forces", "order")
    }
    joined |= {word: {k: v for part in parts for k, v in part[word].items()} for word in MAPPINGS}
    joined["tree"] = _joined_tree(what, [part["tree"] for part in parts if part["tree"]])
    if any(model.independent for model in machines.values()):
        joined |= _with_loops(what, machines, parts)
    return Model(name, description, **joined, place=here())


def _with_loops(what: str, machines: Mapping[str, Model], parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The arguments of Model where the loops of some machines are solved for: so are then those of all."""
    independent: dict[Expr, Expr] = {}
    for (prefix, model), part in zip(machines.items(), parts, strict=True):
        own = {v: v.of.rate for v in part["velocities"] if v.of is not None} | part["independent"]
        if len(own) < len(model.own_motions):
            text = f"{what}: {prefix} has velocities of its own beside a machine with independent="
            raise ModelError(f"{text}; state its velocities as rates of coordinates", here())
        independent |= own
    first_order = [each for part in parts for each in part["first_order"]]
    return {"independent": independent, "velocities": tuple(first_order), "kinematics": {}, "order": ()}


def _joined_tree(what: str, trees: list[Tree]) -> Tree | None:
    """One tree of all links."""
    if len({each.gravity for each in trees}) > 1:
        raise ModelError(f"{what}: the trees of its machines have different gravity; give them the same", here())
    links, frames = (tuple(each for tree in trees for each in getattr(tree, word)) for word in ("links", "frames"))
    return replace(trees[0], links=links, frames=frames) if trees else None


@dataclass(frozen=True)
class _Renaming:
    """The new symbol of each old one."""

    prefix: str
    symbols: dict[Expr, Expr]

    def __call__(self, stated: Any) -> Expr:
        return sympy.sympify(stated).xreplace(self.symbols)

    def quantity(self, quantity: Quantity) -> Quantity:
        return msgspec.structs.replace(quantity, name=self.prefix + quantity.name)

    def named(self, stated: Any) -> Any:
        """An output, reaction's row or the like: what has a quantity and expressions."""
        return replace(stated.mapped(self), quantity=self.quantity(stated.quantity))

    def tree(self, stated: Tree) -> Tree:
        def within(name: str) -> str:
            return name and self.prefix + name

        tree = stated.mapped(self)
        links = tuple(replace(each, name=within(each.name), parent=within(each.parent)) for each in tree.links)
        frames = tuple(replace(each, name=within(each.name), link=within(each.link)) for each in tree.frames)
        return replace(tree, links=links, frames=frames)

    def condition(self, stated: Condition) -> Condition:
        relation = (sympy.Gt if stated.requirement.strict else sympy.Ge)(*map(self, stated.sides), evaluate=False)
        name = "" if stated.requirement.name == "machine" else self.prefix
        text = f"{self.prefix[:-1]}: {stated.requirement.text}"
        return replace(condition(relation, text, name + stated.requirement.name), place=stated.place)

    def constraint(self, stated: Constraint) -> Constraint:
        other = stated.mapped(self)
        other.quantity, other.multiplier = self.quantity(stated.quantity), self.symbols[stated.multiplier]
        return other

    def sensor(self, stated: Sensor) -> Sensor:
        described = msgspec.structs.replace(stated.description, quantity=self.quantity(stated.quantity))
        return replace(stated.mapped(self), description=described)

    def picture(self, stated: Picture) -> Picture:
        """Without its goal, whose targets are those of one machine."""
        shapes = (replace(each.mapped(self), name=each.name and self.prefix + each.name) for each in stated.shapes)
        return replace(stated.mapped(self), shapes=tuple(shapes), goal=None)

    def jump(self, stated: Jump) -> Jump:
        changes = {self(state): value for state, value in stated.mapped(self).changes.items()}
        text = f"{self.prefix[:-1]}: {stated.description}"
        return replace(stated.mapped(self), changes=changes, description=text)


def _prefixed(model: Model, prefix: str) -> dict[str, Any]:
    """The arguments of Model for this machine with the prefix to all its names."""
    new = _Renaming(prefix, _symbols(model, prefix))
    renamed: dict[str, Any] = {word: new(getattr(model, word)) for word in ENERGIES}
    renamed |= {word: [*map(new, getattr(model, word))] for word in ("parameters", "coordinates", "velocities")}
    for word in MAPPINGS:
        entries = getattr(model, word).items()  # by a symbol, or by the name of an identity
        renamed[word] = {prefix + key if isinstance(key, str) else new(key): new(value) for key, value in entries}
    return renamed | {
        "tree": model.tree and new.tree(model.tree),
        "independent": {new(v): new(rate) for v, rate in model.independent_rates.items()},
        "order": [new(symbol) for symbol in model.state],
        "forces": [(new(force), new(on)) for force, on in model.forces],
        "bodies": [replace(each.mapped(new), name=prefix + each.name) for each in model.bodies],
        "stabilised": [new.named(each) for each in model.stabilised],
        "outputs": [new.named(each) for each in model.outputs],
        "constraints": [new.constraint(each) for each in model.constraints],
        "sensors": [new.sensor(each) for each in model.sensors],
        "requirements": [new.condition(each) for each in model.requirements],
        "warnings": [new.condition(each) for each in model.warnings],
        "faults": [new.condition(each) for each in model.faults if each.requirement.name != "dead_point"],
        "jumps": [new.jump(each) for each in model.jumps],
        "drawing": [new.picture(each) for each in model.drawing],
        "panels": [tuple(prefix + name for name in panel) for panel in model.panels],
    }


def _symbols(model: Model, prefix: str) -> dict[Expr, Expr]:
    """All symbols of a machine, rates and multipliers too, with those that take their place."""
    found: dict[Expr, Expr] = {}
    for symbol in (*model.coordinates, *model.velocities, *model.inputs, *model.reactions, *model.parameters):
        of = getattr(symbol, "of", None)
        found[symbol] = found[of].own_velocity() if of is not None else _renamed(symbol, prefix)
        found |= {Rate(symbol.name, order): Rate(prefix + symbol.name, order) for order in (1, 2)}
    found |= {before(symbol): before(found[symbol]) for symbol in model.state}
    for each in model.constraints:
        found[each.multiplier] = sympy.Symbol(prefix + each.quantity.name, real=True)
    # a coordinate's own velocity is a symbol apart from the rate of the same name
    return found | {q.rate: found[q].rate for q in model.coordinates if isinstance(q, Coordinate)}


def _renamed(symbol: Named, prefix: str) -> Named:
    other = type(symbol)(msgspec.structs.replace(symbol.quantity, name=prefix + symbol.name))
    other.place, other.vector = symbol.place, symbol.vector and prefix + symbol.vector
    return other
