"""Packaged machines have the numbers that machines.toml says, to all digits of its texts."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.packaged import load_machine

ROWS = tomllib.loads(Path(__file__).with_name("machines.toml").read_text("utf-8"))["numbers"]
ROUNDING = 1e-12  # of the largest number of a text


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['machine']} of {row['source']}")
def test_a_machine_has_its_known_numbers(row: dict[str, Any], flow: Callable[..., Any]) -> None:
    machine = load_machine(row["machine"], row.get("parameters", {}), row.get("settings", {}))
    x, u = machine.state(row.get("state", {})), np.array(row.get("inputs", [0.0] * machine.n_inputs))
    if end := row.get("duration"):
        x = flow(machine, x, end, u)[:, -1]
    rates = machine.derivatives(0.0, x, u)
    found = {"energy": machine.energy(0.0, x), "power": rates[-1], **machine.outputs(0.0, x, u)}
    for name, value, rate in zip(machine.description.state_names, x, rates, strict=False):
        found |= {name: value, f"{name}'": rate}
    if machine.description.has_full_form:
        found |= {f"full{i}": each for i, each in enumerate(machine.full(0.0, x, u)[1])}
    for names, text in row["expect"].items():
        printed = text.split(",")
        largest = max(abs(float(each)) for each in printed)
        for name, each in zip(names.split(), printed, strict=True):
            digit = 10.0 ** -len(each.partition(".")[2])
            # half a unit of rounding, a tenth of one for the integration
            assert found[name] == pytest.approx(float(each), rel=0, abs=0.6 * digit + ROUNDING * largest), name
