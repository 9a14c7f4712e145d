"""Straight-line programs of a law: however often they are differentiated, they stay short and right."""

from itertools import pairwise

import pytest
import sympy

from servonode.controllers.engine.motion import LONGEST, StraightLine
from servonode.mechanics import parameter
from servonode.mechanics.straight_line import written_out

x, y, z = sympy.symbols("x y z", real=True)
m = parameter("m", "mass", "kg", default=2.0)
RATES = {x: y, y: -sympy.sin(x), z: x * y}


@pytest.mark.slow
def test_derivatives_of_long_sums_of_products_grow_with_the_number_of_definitions() -> None:
    """A sum of products as reduced equations of motion have them: its third derivative is sympy's own."""
    stated = sum(m**i * x**i * y ** (4 - i) * sympy.cos(z) ** 3 * sympy.sin(x + z) ** 2 for i in range(5))
    line, whole = StraightLine((m,)), stated
    rates = {symbol: line.define(rate) for symbol, rate in RATES.items()}
    atoms, counts = [line.define(stated)], list[int]()
    for _ in range(5):
        atoms.append(line.derivative(atoms[-1], "drift", lambda symbol: rates.get(symbol, sympy.Integer(0))))
        counts.append(len(line.definitions))
    for _ in range(3):
        whole = sympy.Add(*(whole.diff(symbol) * rate for symbol, rate in RATES.items()))
    new = [b - a for a, b in pairwise(counts)]
    assert new[-1] < 2.5 * new[-2], "they must not grow with every product that a derivative would be written out into"
    longest = max(len(list(sympy.preorder_traversal(each))) for each in line.definitions.values())
    assert longest <= 4 * LONGEST, "a definition may be a sum of many atoms, but of no long products"
    at = {x: sympy.Rational(1, 3), y: sympy.Rational(-1, 2), z: sympy.Rational(4, 5), m: sympy.Integer(2)}
    values = dict(at)
    for symbol, definition in line.definitions_of([atoms[3]]):
        values[symbol] = definition.xreplace(values).evalf(40)
    assert abs(values[atoms[3]] - whole.xreplace(at).evalf(40)) < 1e-25 * abs(values[atoms[3]])


def test_what_is_short_stands_as_it_is_stated() -> None:
    line = StraightLine((m,))
    atom = line.define(m * x * sympy.cos(y) + z**2)
    assert list(line.definitions.values()) == [sympy.cos(y), m * x * line.define(sympy.cos(y)) + z**2]
    assert written_out(atom, line.definitions_of([atom]), 50) == m * x * sympy.cos(y) + z**2
