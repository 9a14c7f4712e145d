"""The local names of a generated function, and where C declares them."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from servonode.export.c_text import RESERVED, fresh


def drop_unread(function: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> None:
    """Take out, again and again, assignments to names that nothing reads; calls of functions stay."""
    read: set[str] | None = None
    while read != (now := {each.id for each in ast.walk(function) if _is_read(each)}):
        read = now
        function.body = list(_useful(function.body, read, functions))


def _is_read(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _useful(body: Sequence[ast.stmt], read: set[str], functions: Mapping[str, ast.FunctionDef]) -> Iterator[ast.stmt]:
    for statement in body:
        match statement:
            case ast.If() | ast.For():
                statement.body = list(_useful(statement.body, read, functions))
                statement.orelse = list(_useful(statement.orelse, read, functions))
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AugAssign(target=ast.Name(id=name), value=value)
            ) if name not in read:
                if not _calls(value, functions):
                    continue
                if isinstance(value, ast.Call):
                    statement = ast.copy_location(ast.Expr(value), statement)
        yield statement


def _calls(node: ast.AST, functions: Mapping[str, ast.FunctionDef]) -> bool:
    return any(isinstance(each, ast.Call) and getattr(each.func, "id", "") in functions for each in ast.walk(node))


class _Place(NamedTuple):
    """Where a name occurs: the statements around it from the outermost to its own, each with its block's identity."""

    blocks: tuple[int, ...]
    statements: tuple[ast.stmt, ...]


def _places(body: Sequence[ast.stmt], around: _Place) -> Iterator[tuple[str, _Place]]:
    """Every occurrence of a name in the statements, in the order of the text."""
    for statement in body:
        place = _Place((*around.blocks, id(body)), (*around.statements, statement))
        for part in ast.iter_child_nodes(statement):
            if not isinstance(part, ast.stmt):
                yield from ((each.id, place) for each in ast.walk(part) if isinstance(each, ast.Name))
        if isinstance(statement, ast.If | ast.For):
            yield from _places(statement.body, place)
            yield from _places(statement.orelse, place)


def assigned(body: Sequence[ast.stmt]) -> list[str]:
    """The names that the statements assign to, loop variables too, once an assignment."""
    names = (each for statement in body for each in ast.walk(statement) if isinstance(each, ast.Name))
    return [each.id for each in names if isinstance(each.ctx, ast.Store)]


class Declarations:
    """Where the local names of a function are declared in C, so that each use sees the value that Python sees.

    With its first assignment where that stands in the innermost block of all uses, else without a value before the
    function's statement that holds its first use.
    """

    def __init__(self, node: ast.FunctionDef) -> None:
        self.with_value: set[tuple[str, ast.stmt]] = set()
        self.before: dict[ast.stmt, list[str]] = {}
        loops = [each for each in ast.walk(node) if isinstance(each, ast.For)]
        self.loop_names = {each.target.id for each in loops if isinstance(each.target, ast.Name)}
        stores = assigned(node.body)
        self.constant = {name for name in stores if stores.count(name) == 1}
        places: dict[str, list[_Place]] = {}
        for name, place in _places(node.body, _Place((), ())):
            places.setdefault(name, []).append(place)
        own = {each.arg for each in node.args.args} | self.loop_names
        for name in dict.fromkeys(stores):
            if name not in own:
                self._declare(name, places[name])

    def _declare(self, name: str, places: list[_Place]) -> None:
        depth = 0
        while all(len(each.blocks) > depth and each.blocks[depth] == places[0].blocks[depth] for each in places):
            depth += 1
        first = places[0].statements[depth - 1]
        match first:
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                self.with_value.add((name, first))
            case _:
                self.before.setdefault(places[0].statements[0], []).append(name)


def c_names(node: ast.FunctionDef) -> dict[str, str]:
    """The C name of each local name: its own, unless C has another use for it."""
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | {each.arg for each in node.args.args}
    names = {name: name for name in used}
    for name in sorted(used):
        if name in RESERVED or name.startswith("_") or not name.isascii():
            plain = name.lstrip("_") if name.isascii() else "name"
            names[name] = fresh(f"{plain}_", names.values())
    return names


def returns(body: Sequence[ast.stmt]) -> bool:
    """Whether the statements end with a return on every way."""
    match body[-1] if body else None:
        case ast.Return():
            return True
        case ast.If(body=yes, orelse=no):
            return returns(yes) and returns(no)
    return False
