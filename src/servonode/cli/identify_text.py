"""The text of an identification: tables of estimates, residuals and the law."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from servonode.identification.excitation import NextExperiment
from servonode.identification.identification import Estimate, Identification, law_text, rounded
from servonode.identification.uncertainty import Residuals

Cells = tuple[str, ...]


def text(found: Identification) -> str:
    """All that was found, for people."""
    head = (
        f"{found.machine}: {', '.join(found.records)} ({found.duration:.4g} s, {found.fit.n_measurements} measurements)"
    )
    rows: list[Cells] = [("parameter", "before", "estimate", "95 % interval", "unit", "told by the record")]
    rows += [_estimate_row(each) for each in (*found.estimates.values(), *found.combinations)]
    channels: list[Cells] = [("measured", "rms of residuals", "quantum", "fit", "white", "record")]
    channels += [(*_residual_row(each), each.experiment) for each in found.residuals]
    if len(found.records) == 1:
        channels = [each[:-1] for each in channels]
    lines = [head, *_aligned(rows), "", *_aligned(channels)]
    if found.law:
        law = [(name, law_text(*each)) for name, each in found.law.items()]
        lines += ["", *_aligned([("residual of the law", "believing before -> believing the estimates"), *law])]
    return "\n".join([*lines, *(f"note: {each}" for each in found.notes)])


def next_text(proposed: NextExperiment, file: Path) -> str:
    """What the next experiment is, and what is to be expected of it."""
    what = "sines as inputs" if proposed.kind == "inputs" else "sines added to the goals of the law"
    rows: list[Cells] = [("parameter", "95 % now", "with it")]
    rows += [(name, _half(each), _half(proposed.expected[name])) for name, each in proposed.now.items()]
    head = f"next experiment: {file} ({what}, {proposed.duration:g} s; servonode run {file} --record)"
    return "\n".join([head, *_aligned(rows)])


def _half(error: float) -> str:
    return f"± {error:.2g}" if np.isfinite(error) else "not told"


def remarks(found: Identification) -> dict[str, str]:
    """Behind each parameter its interval, or that it is not told."""
    return {
        name: f"± {each.error:.2g} (95 %)" if np.isfinite(each.error) else each.told
        for name, each in found.estimates.items()
    }


def _estimate_row(each: Estimate) -> Cells:
    unit = "" if each.unit == "1" else each.unit
    if not np.isfinite(each.error):
        return each.name, f"{each.before:.5g}", f"left at {each.value:.5g}", "-", unit, each.told
    low, high = (rounded(value, each.error) for value in each.interval)
    return each.name, f"{each.before:.5g}", rounded(each.value, each.error), f"{low} to {high}", unit, each.told


def _residual_row(each: Residuals) -> Cells:
    unit = "" if each.unit == "1" else f" {each.unit}"
    quantum = f"{each.quantum:.3g}{unit}" if each.quantum else "-"
    return each.channel, f"{each.rms:.3g}{unit}", quantum, f"{each.fit:.2%}", "yes" if each.white else "no"


def _aligned(rows: Sequence[Cells]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(f"{each:<{w}}" for each, w in zip(row, widths, strict=True)).rstrip() for row in rows]
