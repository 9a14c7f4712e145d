"""Firmware with a law that keeps is refused where its board may be too slow for the solver."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

import servonode
from servonode.export.c_firmware import machine_header
from tests.helpers.c_code import compiler

FIRMWARE = Path(__file__).parents[2] / "firmware"
KEEPS: dict[str, Any] = {"keep": {"slow": "0.5 - V"}, "controller__limits": "keep"}


def compiled(folder: Path, operations_per_s: int, **more: Any) -> "subprocess.CompletedProcess[str]":
    loop = servonode.load("trailer_pursuit", plant__safety__limit=0.5, **more).closed_loop
    (folder / "machine.h").write_text(machine_header(loop))
    options = ['-DMACHINE_HEADER="machine.h"', f"-DBOARD_OPERATIONS_PER_S={operations_per_s}", "-fsyntax-only"]
    words = [compiler(), "-std=c99", "-Wall", "-I", str(folder), *options, str(FIRMWARE / "host" / "simulated.c")]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("period", "fits"), [(0.01, False), (0.1, True)], ids=["in a period that is too short", "in a longer one"]
)
def test_firmware_whose_board_may_be_too_slow_for_what_its_law_keeps_is_not_compiled(
    tmp_path: Path, period: float, fits: bool
) -> None:
    done = compiled(tmp_path, 50_000, period=period, **KEEPS)
    assert (done.returncode == 0) is fits, done.stderr
    assert fits or "may take longer than its period on this board: lengthen controller.period" in done.stderr


def test_a_law_that_keeps_nothing_states_no_operations(tmp_path: Path) -> None:
    assert compiled(tmp_path, 1).returncode == 0
    assert "OPERATIONS" not in (tmp_path / "machine.h").read_text()


@pytest.mark.parametrize("board", ["stm32f446", "rp2040"])
def test_boards_say_how_fast_they_are(board: str) -> None:
    assert "-DBOARD_OPERATIONS_PER_S=" in (FIRMWARE / "boards" / board / "board.mk").read_text()
