"""Large expressions as straight-line programs: their sums are symbols that carry their definitions.

A machine of many bodies has short equations only as long as nothing is multiplied out and what is computed once is
written once. `named` gives a sum or product a symbol of its own, an `Auxiliary`, whose definition contains symbols and
earlier auxiliary symbols. No definition nests deeper than a product of sums, however long the chain of definitions is:
what walks along the chain is a loop (`ordered`), so that no recursion goes deep. Equal definitions are one symbol.

Derivatives go from definition to definition by the chain rule: one sweep along the definitions for a derivative along
rates, one against their order for those by all symbols. `sympy.diff` asks for assumptions and goes through the whole
result once for each node, and knows nothing of what other calls found; the same rules applied node by node, with what
was found of each subexpression remembered, give the same expressions in a tenth of the time. Generated text assigns
each definition once (`emit.Block`).
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import sympy
from sympy.core.function import ArgumentIndexError

Matrix = Any  # sympy.Matrix
Expr = Any
Rule = frozenset[tuple[Expr, Expr]]  # what is put in for what
REMEMBERED = 1 << 18  # nodes


class Auxiliary(sympy.Symbol):  # type: ignore[misc]
    """A symbol that stands for its `definition`. It has the symbols of its definition, and is replaced in it too.

    Its name is a digest of the definition: the same in each process, for names order the terms of sums.
    """

    definition: Expr
    symbols: frozenset[Expr]  # of the definition, no auxiliary ones among them
    replaced: dict[Rule, Expr]  # what became of it by the rules that it has met

    def text(self, block: Any) -> str:  # noqa: ARG002
        """Emit into a block what computes it, where that is not its definition: its text there, else none."""
        return ""

    @property
    def parts(self) -> tuple[Expr, ...]:
        """What is evaluated before it."""
        return (self.definition,)

    def __new__(cls, definition: Expr) -> "Auxiliary":
        known = _made.get(definition)
        if known is not None:
            return known
        auxiliary: Auxiliary = sympy.Symbol.__xnew__(cls, f"auxiliary_{digest(definition)}", real=True)
        auxiliary.definition, auxiliary.symbols = definition, symbols_of(definition)
        auxiliary.replaced = {}
        _made[definition] = auxiliary
        return auxiliary

    def __reduce__(self) -> Any:
        chain = ordered([self])
        plain = {each: sympy.Symbol(each.name) for each in chain}
        return _restored, ([(plain[each], each.definition.xreplace(plain)) for each in chain],)

    @property
    def free_symbols(self) -> set[Expr]:
        return set(self.symbols)

    def xreplace(self, rule: Mapping[Expr, Expr]) -> Expr:
        return self._xreplace(rule)[0]

    def _xreplace(self, rule: Mapping[Expr, Expr]) -> tuple[Expr, bool]:
        """What sympy's xreplace asks of each node: what becomes of it, and whether it has changed."""
        if self in rule:
            return rule[self], True
        relevant = _relevant(rule.items(), self.symbols)
        if not relevant:
            return self, False
        if relevant not in self.replaced:
            _replace_along(self, relevant)
        return self.replaced[relevant], True

    def _eval_subs(self, old: Expr, new: Expr) -> Expr:
        return self.xreplace({old: new})

    def _eval_derivative_n_times(self, s: Expr, n: Expr) -> Expr:
        slope = diff(self, s)
        return slope if n == 1 else slope.diff(s, n - 1)


@lru_cache(maxsize=REMEMBERED)
def digest(node: Expr) -> str:
    """A name for an expression, of which each definition has its own."""
    parts = [type(node).__name__, *map(digest, node.args)] if node.args else [sympy.srepr(node)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:20]


def _restored(chain: list[tuple[Expr, Expr]]) -> Expr:
    """The last auxiliary symbol of a chain of definitions, in which plain symbols stand for those before."""
    found: dict[Expr, Expr] = {}
    for plain, definition in chain:
        found[plain] = Auxiliary(definition.xreplace(found))
    return found[chain[-1][0]]


_made: "WeakValueDictionary[Expr, Auxiliary]" = WeakValueDictionary()  # by their definitions


@lru_cache(maxsize=REMEMBERED)
def leaves_of(node: Expr) -> frozenset[Expr]:
    """The symbols of a node, auxiliary ones as they are; equal sets of a node and its arguments are shared."""
    if node.is_Symbol:
        return frozenset((node,))
    largest: frozenset[Expr] = frozenset()
    for argument in node.args:
        own = leaves_of(argument)
        if not own <= largest:
            largest = own if largest <= own else largest | own
    return largest


@lru_cache(maxsize=REMEMBERED)
def symbols_of(node: Expr) -> frozenset[Expr]:
    """The symbols of a node, those of definitions in place of auxiliary ones."""
    leaves = leaves_of(node)
    auxiliary = auxiliaries_of(node)
    return (leaves - set(auxiliary)).union(*(each.symbols for each in auxiliary)) if auxiliary else leaves


@lru_cache(maxsize=REMEMBERED)
def auxiliaries_of(node: Expr) -> tuple[Auxiliary, ...]:
    """The auxiliary symbols that a node itself contains, by name."""
    return tuple(sorted((each for each in leaves_of(node) if isinstance(each, Auxiliary)), key=lambda each: each.name))


def ordered(expressions: Iterable[Expr], written_out: bool = True) -> list[Auxiliary]:
    """The auxiliary symbols that expressions need, each after those that its definition needs.

    written_out: or, where not, those that are evaluated before it, see `computed`.
    """
    found: dict[Auxiliary, None] = {}
    for expression in expressions:
        waiting = [(each, False) for each in reversed(auxiliaries_of(expression))]
        while waiting:
            each, complete = waiting.pop()
            if complete:
                found[each] = None
            elif each not in found:
                waiting.append((each, True))
                parts = (each.definition,) if written_out else each.parts
                below = [one for part in parts for one in auxiliaries_of(sympy.sympify(part))]
                waiting += [(one, False) for one in reversed(below) if one not in found]
    return list(found)


def definitions_of(expressions: Iterable[Expr]) -> list[tuple[Expr, Expr]]:
    """The auxiliary symbols that expressions need, in order, each with its definition."""
    return [(each, each.definition) for each in ordered(expressions)]


def written_out(expression: Expr, definitions: Iterable[tuple[Expr, Expr]], most: int) -> Expr | None:
    """The expression with definitions put in; None where one has more than `most` operations then."""
    written: dict[Expr, Expr] = {}
    for symbol, definition in definitions:
        written[symbol] = definition.xreplace(written)
        if sympy.count_ops(written[symbol]) > most:
            return None
    return expression.xreplace(written)


@lru_cache(maxsize=REMEMBERED)
def named(expression: Expr) -> Expr:
    """The expression, which is a name from two factors or terms on; its inner sums have names too."""
    expression = in_parts(expression)
    _, rest = expression.as_coeff_Mul()  # a number, a symbol, a function of an angle, or a number times one is short
    is_short = rest.is_Atom or (rest.is_Function and all(map(_is_plain, rest.args)))
    return expression if is_short else _auxiliary(expression)


def _auxiliary(expression: Expr) -> Expr:
    """The auxiliary symbol of an expression, or minus that of its negative: one for both."""
    return -Auxiliary(-expression) if expression.could_extract_minus_sign() else Auxiliary(expression)


def _is_plain(argument: Expr) -> bool:
    """Whether an argument of a function is a sum of symbols, such as an angle."""
    return all(term.as_coeff_Mul()[1].is_Symbol for term in sympy.Add.make_args(argument))


@lru_cache(maxsize=REMEMBERED)
def in_parts(expression: Expr) -> Expr:
    """The expression with a name for each sum inside it, but for the angles of functions; its numbers are exact."""
    expression = sympy.sympify(expression)
    known: dict[Expr, Expr] = {}
    for node in arguments_first(expression):
        if node.args:
            parts = [_part(known[each], node) for each in node.args]
            changed = any(part is not each for part, each in zip(parts, node.args, strict=True))
            known[node] = node.func(*parts) if changed else node
        else:
            known[node] = exact(node) if node.is_Float else node
    return known[expression]


def exact(number: Expr) -> Expr:
    """A decimal number as a fraction."""
    return sympy.Rational(repr(float(number)))


def _part(argument: Expr, node: Expr) -> Expr:
    if argument.is_Add and not node.is_Add and not (node.is_Function and _is_plain(argument)):
        return _auxiliary(argument)
    return argument


def arguments_first(expression: Expr) -> Iterator[Expr]:
    """The different nodes of an expression, each after its arguments."""
    done: set[Expr] = set()
    waiting = [(expression, False)]
    while waiting:
        node, complete = waiting.pop()
        if complete:
            done.add(node)
            yield node
        elif node not in done:
            waiting.append((node, True))
            waiting += [(each, False) for each in node.args if each not in done]


def _relevant(rule: Iterable[tuple[Expr, Expr]], symbols: frozenset[Expr]) -> Rule:
    """The part of a rule that changes what has these symbols."""
    return frozenset((old, new) for old, new in rule if not symbols.isdisjoint(symbols_of(old)) and old != new)


def _replace_along(auxiliary: Auxiliary, rule: Rule) -> None:
    """Replace in all definitions that an auxiliary symbol needs."""
    results: dict[Expr, Expr] = {}
    stated = dict(rule)
    for each in ordered([auxiliary], written_out=False):
        relevant = _relevant(rule, each.symbols)
        if each in stated:
            results[each] = stated[each]
        if each in stated or not relevant:
            continue
        if relevant not in each.replaced and each.parts != (each.definition,):
            each.replaced[relevant] = each.xreplace(stated)
        if relevant not in each.replaced:
            below = {part: results[part] for part in auxiliaries_of(each.definition) if part in results}
            each.replaced[relevant] = named(each.definition.xreplace({**stated, **below}))
        results[each] = each.replaced[relevant]


def by_addition(expressions: Iterable[Expr]) -> dict[Expr, Expr]:
    """Sines and cosines of sums of angles by the addition theorem, where those of both parts are computed anyway.

    The headings of a train of trailers, each the sum of one more angle, then cost two products each.
    """
    expressions = list(expressions)
    wholes = [*(part for each in ordered(expressions, written_out=False) for part in each.parts), *expressions]
    functions = {node for whole in wholes for node in _sines_of(whole)}
    known = {each.args[0]: (sympy.sin(each.args[0]), sympy.cos(each.args[0])) for each in functions}
    rule: dict[Expr, Expr] = {}
    for angle in sorted(known, key=lambda angle: (len(angle.args), str(angle))):
        terms = angle.args if angle.is_Add and all(each.is_Symbol for each in angle.args) else ()
        last = next((each for each in sorted(terms, key=str) if each in known and angle - each in known), None)
        if last is not None:
            (s, c), (s_last, c_last) = known[angle - last], known[last]
            known[angle] = Auxiliary(s * c_last + c * s_last), Auxiliary(c * c_last - s * s_last)
            rule |= {sympy.sin(angle): known[angle][0], sympy.cos(angle): known[angle][1]}
    return rule


@lru_cache(maxsize=REMEMBERED)
def _sines_of(expression: Expr) -> frozenset[Expr]:
    """The sines and cosines in an expression itself."""
    return frozenset(node for node in arguments_first(expression) if isinstance(node, sympy.sin | sympy.cos))


def diff(expression: Expr, symbol: sympy.Symbol) -> Expr:
    """The partial derivative of an expression."""
    return along(expression, {symbol: sympy.Integer(1)})


def along(expression: Expr, rates: Mapping[Expr, Expr]) -> Expr:
    """The derivative of an expression whose symbols change at these rates."""
    expression, known = sympy.sympify(expression), dict(rates)
    for each in ordered([expression]):
        if not each.symbols.isdisjoint(rates):
            known[each] = named(_along(each.definition, known))
    return _along(expression, known)


def along_matrix(matrix: Matrix, rates: Mapping[Expr, Expr]) -> Matrix:
    """The derivatives of the entries along rates."""
    return matrix.applyfunc(lambda entry: along(entry, rates))


def gradient(expression: Expr, symbols: Sequence[sympy.Symbol]) -> list[Expr]:
    """The partial derivatives by several symbols."""
    expression = sympy.sympify(expression)
    if auxiliaries_of(expression):
        return _gradient_against_order(expression, symbols)
    return [_partial(expression, symbol) for symbol in symbols]


def _gradient_against_order(expression: Expr, symbols: Sequence[sympy.Symbol]) -> list[Expr]:
    """The same of a straight-line program: what each definition passes on to those below it."""
    wanted = set(symbols)
    passed: dict[Expr, list[Expr]] = defaultdict(list)

    def pass_on(definition: Expr, slope: Expr) -> None:
        for leaf in leaves_of(definition):
            if not wanted.isdisjoint(symbols_of(leaf)):
                passed[leaf].append(slope * _partial(definition, leaf))

    pass_on(expression, sympy.Integer(1))
    for each in reversed(ordered([expression])):
        if each in passed:
            pass_on(each.definition, named(sympy.Add(*passed[each])))
    return [named(sympy.Add(*passed[symbol])) for symbol in symbols]


def _along(definition: Expr, rates: Mapping[Expr, Expr]) -> Expr:
    """The derivative of an expression whose symbols, auxiliary ones too, change at these rates."""
    changing = leaves_of(definition) & rates.keys()
    return sympy.Add(*(_partial(definition, leaf) * rates[leaf] for leaf in changing))


@lru_cache(maxsize=REMEMBERED)
def _partial(node: Expr, symbol: sympy.Symbol) -> Expr:
    if node.is_Symbol:
        return sympy.Integer(int(node == symbol))
    if symbol not in leaves_of(node):
        return sympy.Integer(0)
    if node.is_Add:
        return sympy.Add(*(_partial(argument, symbol) for argument in node.args))
    if node.is_Mul:
        slopes = [(i, _partial(each, symbol)) for i, each in enumerate(node.args)]
        return sympy.Add(*(sympy.Mul(*node.args[:i], each, *node.args[i + 1 :]) for i, each in slopes if each != 0))
    if node.is_Pow and not node.exp.free_symbols:
        return node * (_partial(node.base, symbol) * node.exp / node.base)
    if isinstance(node, sympy.Function) and type(node)._eval_derivative is sympy.Function._eval_derivative:
        return sympy.Add(*(_slope(node, i) * _partial(each, symbol) for i, each in enumerate(node.args, 1)))
    plain = {each: sympy.Dummy(real=True) for each in auxiliaries_of(node)}  # sympy would go into their definitions
    back = {dummy: each for each, dummy in plain.items()}
    return sympy.diff(node.xreplace(plain), plain.get(symbol, symbol)).xreplace(back)


def _slope(function: Expr, i: int) -> Expr:
    try:
        return function.fdiff(i)
    except ArgumentIndexError:
        return sympy.Function.fdiff(function, i)
