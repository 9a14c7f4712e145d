"""Whether the units that a machine and a program state fit their equations.

`servonode check` says it, and nothing that runs: units are words, no number depends on them. A mismatch is a reason to
refuse all the same, for either an equation or what every table and axis prints is wrong, and no yes is worth anything
before it is known which. A unit that is not known is a warning: nothing contradicts it, nothing could be checked.
"""

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.static_checks import Examination


def judge_units(closed_loop: ClosedLoop, found: Examination) -> None:
    """Add what does not fit in machine and program, as they are given (this imports sympy)."""
    from servonode.mechanics.dimensions import machine_mismatches

    source = closed_loop.source
    free_text = any(isinstance(each.default, str) and not each.choices for each in source.definition.options.values())
    wrong, unknown = machine_mismatches(source.build(), rows=not free_text)  # its numbers have units that nobody states
    control = closed_loop.control
    if control is not None:
        from servonode.controllers.engine.dimensions import program_mismatches

        believed = control.believed.build()
        more, odd = program_mismatches(believed, control.source.build(believed, control.options))
        wrong, unknown = [*wrong, *more], [*unknown, *odd]
    for text in wrong:
        found.add("refuse", "units", f"{text}; correct the equation, or the unit that a symbol states")
    for text in unknown:
        found.add("warn", "units", text)
