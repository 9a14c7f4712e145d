"""The derived equations of a machine and its program, for a reader: as text and as LaTeX.

Both forms show the same document, in the notation of docs/explanation/mathematics.md.
"""

from collections.abc import Mapping
from types import MappingProxyType

from servonode.controllers.engine.servo import Servo
from servonode.export.blocks import Block, Notation
from servonode.export.latex import LINE, MathPrinter, latex_document, width
from servonode.export.sections import machine_blocks, program_blocks
from servonode.export.simplify import Abbreviations, with_definitions
from servonode.export.text import text_document
from servonode.mechanics.equations import Equations
from servonode.mechanics.stabilize import Gains

NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})
_TERM = 0.7 * LINE  # pt; a term that is wider gets an abbreviation inside


def show_text(
    equations: Equations, servo: Servo | None, gains: Gains | None, weights: Mapping[str, float] = NO_WEIGHTS
) -> str:
    """The equations as plain text of at most 100 columns; powers as ^, rates as x', products as *.

    weights: of inputs in the least norm, by name.
    """
    notation = Notation(equations, servo)
    return text_document(_document(equations, servo, gains, weights, notation), notation)


def show_latex(
    equations: Equations,
    servo: Servo | None,
    gains: Gains | None,
    weights: Mapping[str, float] = NO_WEIGHTS,
    standalone: bool = True,
) -> str:
    """The equations as a LaTeX document that needs amsmath only, or as its body."""
    notation = Notation(equations, servo)
    return latex_document(_document(equations, servo, gains, weights, notation), notation, standalone)


def _document(
    equations: Equations, servo: Servo | None, gains: Gains | None, weights: Mapping[str, float], notation: Notation
) -> list[Block]:
    printer = MathPrinter(notation)
    short = Abbreviations(notation.names, lambda term: width(printer.doprint(term)) > _TERM)
    blocks = machine_blocks(equations, short)
    if servo is not None:
        blocks += program_blocks(servo, gains, weights, short)
    return with_definitions(blocks, notation.names)
