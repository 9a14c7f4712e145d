"""Reversing a trailer onto a line on every driver: the table of `benchmarks/drivers.py` is the documented one."""

import importlib.util
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.helpers.external_c import external_c
from tests.helpers.extras import MUJOCO, NO_MUJOCO
from tests.helpers.firmware import LINES, OnLine, built

ROOT = Path(__file__).parents[2]
TASK = "trailer_reverse"
BENCHMARKS, FIRMWARE = "benchmarks/README.md", "docs/reference/firmware.md"
DOCUMENTED = {  # of each row of the table: the page, and the row there
    "equations": (BENCHMARKS, "the machine's equations"),
    "C, libzmq": (BENCHMARKS, "external plant in C, libzmq"),
    "firmware, serial": (BENCHMARKS, "firmware, float32, serial or UDP"),
    "firmware, UDP": (BENCHMARKS, "firmware, float32, serial or UDP"),
    "MuJoCo": (BENCHMARKS, "MuJoCo"),
    "wheels, gyro": (BENCHMARKS, "estimate from encoders and gyroscope"),
    "  and hitch": (BENCHMARKS, "estimate, hitch too"),
    "  and camera": (BENCHMARKS, "estimate, hitch and camera too"),
    "wheels, firmware": (FIRMWARE, "reversing, encoders and gyroscope"),
    "  with hitch": (FIRMWARE, "reversing, with an encoder at the hitch"),
    "  with camera": (FIRMWARE, "reversing, that and a camera"),
    "all on MuJoCo": (BENCHMARKS, "the same on MuJoCo"),
}
SHOWN = dict.fromkeys(("equations", "firmware, UDP", "  and camera"), pytest.mark.slow)  # the others in the soak
WITHIN = 1.3  # other processors and libraries round in other ways, and backing up amplifies that
EXACT = 1e-9  # m, rad: what the law leaves of the speed without any error is rounding alone
RESOLUTION = 2.0**-23  # relative, of the numbers in packets
FAR = 8.0  # m, more than the robot drives
ON_LINE_S = 1.0  # of plant time, on lines whose bytes take their time


def documented(page: str, row: str) -> list[float]:
    """The numbers in a row of the table on reversing."""
    text = (ROOT / page).read_text("utf-8").rpartition("| reversing onto a line")[2]
    cells = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", text, re.MULTILINE)
    assert len(cells) == 1, f"{page}: {row}"
    return [float(cell.strip(" *")) for cell in cells[0].split("|")]


@pytest.fixture(scope="module")
def drivers() -> Iterator[ModuleType]:
    """The benchmark, with the programs that other tests have built, and runs that nobody else sees."""
    spec = importlib.util.spec_from_file_location("benchmark_drivers", ROOT / "benchmarks" / "drivers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")  # it imports what stands beside it
        spec.loader.exec_module(module)
    with tempfile.TemporaryDirectory(prefix="sn-") as runtime, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", runtime)  # a short path, for sockets
        patch.setattr(module, "built", lambda folder, target: built(target) if folder == "firmware" else external_c())
        yield module


@pytest.fixture(scope="module")
def ideal(drivers: ModuleType) -> Mapping[str, Any]:
    """The rows of the run by the machine's equations."""
    return rows_of(drivers, "equations")


def rows_of(drivers: ModuleType, way: str) -> Mapping[str, Any]:
    with drivers.ways()[way] as met:
        found: Mapping[str, Any] = drivers.driven(TASK, met, drivers.DURATION_S)
        return found


def test_each_row_is_documented(drivers: ModuleType) -> None:
    assert list(drivers.ways()) == list(DOCUMENTED)
    for page, row in DOCUMENTED.values():
        assert len(documented(page, row)) == 4


@pytest.mark.parametrize("way", [pytest.param(each, marks=SHOWN.get(each, pytest.mark.soak)) for each in DOCUMENTED])
def test_a_trailer_is_reversed_onto_a_line_as_well_as_documented(
    way: str, drivers: ModuleType, ideal: Mapping[str, Any]
) -> None:
    if "MuJoCo" in way and not MUJOCO:
        pytest.skip(NO_MUJOCO)
    speed, hitch, robot, trailer = drivers.row(TASK, rows_of(drivers, way), ideal).values()
    bounds = [WITHIN * number for number in documented(*DOCUMENTED[way])]
    assert speed <= max(bounds[0], EXACT)
    assert hitch <= bounds[1]
    assert robot <= bounds[2]
    assert trailer <= bounds[3]
    if way.startswith("firmware"):
        assert 0 < robot <= RESOLUTION * FAR
        assert 0 < trailer <= RESOLUTION * FAR
    elif way in ("equations", "C, libzmq"):
        assert robot == trailer == 0.0
    else:
        assert robot > RESOLUTION * FAR


@pytest.fixture(scope="module")
def without_baud_rate(drivers: ModuleType) -> Mapping[str, Any]:
    """The rows of the same run over a pseudo-terminal."""
    with drivers.ways()["firmware, serial"] as met:
        found: Mapping[str, Any] = drivers.driven(TASK, met, ON_LINE_S)
        return found


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name.replace(" ", "_"))
def test_run_over_a_line_has_the_bits_of_one_without_baud_rate(
    line: OnLine, drivers: ModuleType, without_baud_rate: Mapping[str, Any]
) -> None:
    with line.machine() as beside:
        found = drivers.driven(TASK, drivers.Met((*line.settings, *beside.settings, drivers.LIMIT)), ON_LINE_S)
    assert found.keys() == without_baud_rate.keys()
    for name, values in without_baud_rate.items():
        np.testing.assert_array_equal(found[name], values, name)
