"""The text of the compiled functions of a stated reward and stated conditions."""

import sympy

from servonode.mechanics.emit import HEADER, Block
from servonode.mechanics.expression import parse
from servonode.wings.explore.environments.stated import Stated

__all__ = ["HEADER", "functions_of"]


def functions_of(stated: Stated) -> str:
    """`reward(columns)`, and `condition(columns)`: END + i for the first condition i that holds, else 0."""
    reward = _block(stated, [stated.reward])
    lines = [f"def reward(columns: f64[n_columns]) -> f64:\n{reward[0]}    return {reward[1][0]}\n"]
    body, texts = _block(stated, stated.conditions)
    tests = "".join(f"    if {text} > 0.0:\n        return END + {i}\n" for i, text in enumerate(texts))
    return "\n\n".join([*lines, f"def condition(columns: f64[n_columns]) -> i64:\n{body}{tests}    return 0\n"])


def _block(stated: Stated, expressions: list[str] | tuple[str, ...]) -> tuple[str, list[str]]:
    """The lines that compute these expressions, and the text of each value, a float."""
    block = Block(None)
    symbols = {name: sympy.Symbol(name, real=True) for name in stated.columns}
    block.load("columns", symbols.values())
    texts = block.evaluate([parse(each, stated.columns).sympy(symbols) for each in expressions])
    return f"{block}\n", texts
