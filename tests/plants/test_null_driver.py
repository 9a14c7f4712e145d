"""What it takes to add a driver: `tests/helpers/null_driver.py`, and its name in the table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.extras import json_validator

ROOT = Path(__file__).parents[2]
REGISTERED = """
from servonode.plants.drivers import DRIVERS
from tests.helpers.null_driver import DRIVER
DRIVERS[DRIVER.name] = DRIVER
"""
COMMAND = "from servonode.cli.main import main; main()"
PAGE = "import runpy; runpy.run_path('docs/_extensions/launch_reference.py', run_name='__main__')"
SCHEMA = "from servonode.closed_loop.schema import launch_schema; print(launch_schema())"
SHORT = ("run.duration=0.2", "run.speed=1", "plant.driver=null")


def done(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What `code` does in an interpreter in which the null driver stands in the table."""
    command = [sys.executable, "-c", REGISTERED + code, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def run(*settings: str) -> subprocess.CompletedProcess[str]:
    given = [word for setting in (*SHORT, *settings) for word in ("--set", setting)]
    return done(COMMAND, "run", "trailer_pursuit", "--json", "--no-report", *given)


@pytest.mark.parametrize("mode", ["realtime", "lockstep"])
def test_a_launch_file_runs_with_it(mode: str) -> None:
    found = run(f"run.mode={mode}")
    assert found.returncode == 0, found.stderr
    final = json.loads(found.stdout)
    assert (final["t"], final["faults"]) == (0.2, [])
    assert all(final["input"].values()), "the law asks for torques"
    assert not any(final["state"].values()), "and nothing moves"


def test_what_it_does_not_read_is_refused() -> None:
    found = run("plant.sensor.noise={phi=0.001}")
    assert found.returncode == 2
    text = (
        '[plant.sensor] noise: is for driver = "simulated" or "loopback" or "mujoco", and [plant] has driver = "null"; '
    )
    assert text in found.stderr


def test_the_reference_page_and_the_schema_know_it() -> None:
    page = done(PAGE).stdout
    assert "| `null` | a plant that stands still |" in page
    summaries = "a microcontroller on a serial port, a microcontroller on a network, a plant that stands still"
    assert (
        f"another process, {summaries}; one of `external`, `loopback`, `mujoco`, `null`, `serial`, `simulated`, `udp` |"
        in page
    )
    schema = json.loads(done(SCHEMA).stdout)
    launch = {"run": {"duration": 1.0}, "plant": {"machine": "a", "driver": "null"}}
    assert json_validator(schema).is_valid(launch)
    assert not json_validator(schema).is_valid({**launch, "plant": {"machine": "a", "driver": "nul"}})
