"""What it takes to add a driver: its name in the table, or in an installed package; errors where one is broken."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.extras import json_validator
from tests.helpers.packages import install, install_wheels

ROOT = Path(__file__).parents[2]
NULL = (ROOT / "tests" / "helpers" / "null_driver.py").read_text()
SHORT = ("run.duration=0.2", "run.speed=1")


def servonode(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line where the packages in a folder are installed."""
    command = [sys.executable, "-m", "servonode.cli.main", *words]
    env = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


BATCH = """
import json, sys
from click.testing import CliRunner
from servonode.cli.main import main
done = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[each.exit_code, each.stderr] for each in done]))
"""


def assert_refused(folder: Path, runs: dict[tuple[str, ...], str]) -> None:
    """By the settings of each run, all of them in one process: its error is one line with this text."""
    words = [["run", "trailer_pursuit", *(word for each in (*SHORT, *given) for word in ("--set", each))]
             for given in runs]  # fmt: skip
    env = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", BATCH, json.dumps(words)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=True)
    for (given, text), (code, said) in zip(runs.items(), json.loads(done.stdout), strict=True):
        assert code == 2, given
        assert text in said
        assert said.count("\n") == 1


def run(folder: Path, driver: str, *settings: str) -> subprocess.CompletedProcess[str]:
    given = [word for each in (*SHORT, f"plant.driver={driver}", *settings) for word in ("--set", each)]
    return servonode(folder, "run", "trailer_pursuit", "--json", "--no-report", *given)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One good driver of another package, and every kind of broken one."""
    folder = tmp_path_factory.mktemp("site")
    install(folder, "null-driver", {"null": "null_driver:DRIVER"}, null_driver=NULL)
    install(folder, "gone", {"gone": "no_such_module:DRIVER"})
    install(folder, "raises", {"raises": "raising:DRIVER"}, raising="raise RuntimeError('no licence')\n")
    install(folder, "wrong-type", {"wrong_type": "raising_not:DRIVER"}, raising_not="DRIVER = {'name': 'wrong_type'}\n")
    install(folder, "misnamed", {"other": "null_driver:DRIVER"})
    install(folder, "shadow", {"simulated": "null_driver:DRIVER"})
    install(folder, "first", {"twice": "null_driver:DRIVER"})
    install(folder, "second", {"twice": "null_driver:DRIVER"})
    return folder


def test_a_launch_file_runs_with_the_driver_of_a_package(packages: Path) -> None:
    found = run(packages, "null")
    assert found.returncode == 0, found.stderr
    final = json.loads(found.stdout)
    assert all(final["input"].values()), "the law asks for torques"
    assert not any(final["state"].values()), "and nothing moves"


def test_a_broken_package_and_what_a_driver_does_not_read_are_one_error(packages: Path) -> None:
    broken = {
        "gone": "package gone 1.0: its driver 'gone' (no_such_module:DRIVER) cannot be imported (ModuleNotFoundError",
        "raises": "package raises 1.0: its driver 'raises' (raising:DRIVER) cannot be imported (RuntimeError: no lic",
        "wrong_type": "package wrong-type 1.0: its driver 'wrong_type' (raising_not:DRIVER) is of type dict, not a",
        "other": "package misnamed 1.0: its driver 'other' (null_driver:DRIVER) calls itself 'null'; entry point and",
        "twice": "package first 1.0 and package second 1.0 both have a driver 'twice'",
        "nul": '"nul" is unknown; did you mean null? Choose ',
    }
    unread = '[plant.sensor] noise: is for driver = "simulated" or "loopback" or "mujoco", and [plant] has driver = '
    runs = {(f"plant.driver={name}",): text for name, text in broken.items()}
    assert_refused(packages, runs | {("plant.driver=null", "plant.sensor.noise={phi=0.001}"): unread})


def test_the_list_shows_all_of_them_and_where_they_come_from(packages: Path) -> None:
    found = json.loads(servonode(packages, "list", "drivers", "--json").stdout)
    assert found["simulated"] == {"summary": "a simulation", "origin": "servonode"}
    assert found["null"] == {"summary": "a plant that stands still", "origin": "package null-driver 1.0"}
    assert found["gone"].keys() == {"error", "origin"}
    taken = found["simulated (package shadow 1.0)"]["error"]
    assert "'simulated' has the name of one that comes with servonode" in taken
    text = " ".join(servonode(packages, "list", "drivers").stdout.split())
    assert " null a plant that stands still (package null-driver 1.0) " in text


def test_a_package_cannot_take_the_place_of_a_driver_of_servonode(packages: Path) -> None:
    found = run(packages, "simulated")
    assert any(json.loads(found.stdout)["state"].values()), "it moves"


def test_the_schema_for_editors_knows_what_is_installed(packages: Path, tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(packages)}
    command = [sys.executable, "-m", "servonode.cli.main", "new", "schema", "launch"]
    subprocess.run(command, cwd=tmp_path, env=env, timeout=60, check=True, capture_output=True)
    schema = json_validator(json.loads((tmp_path / "launch.json").read_text()))
    launch = {"run": {"duration": 1.0}, "plant": {"machine": "a", "driver": "null"}}
    assert schema.is_valid(launch)
    assert not schema.is_valid({**launch, "plant": {"machine": "a", "driver": "nul"}})


def test_the_reference_page_knows_a_driver_of_the_table() -> None:
    code = "import runpy; from servonode.plants.drivers import DRIVERS; from tests.helpers.null_driver import DRIVER; "
    code += "DRIVERS['null'] = DRIVER; runpy.run_path('docs/_extensions/launch_reference.py', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert "| `null` | a plant that stands still |" in done.stdout
    names = "`can`, `external`, `loopback`, `mujoco`, `null`, `serial`, `simulated`, `udp`"
    assert f"| connection between plant node and machine ({names}) |" in done.stdout


def test_no_package_is_looked_at_for_a_driver_of_servonode() -> None:
    code = "import sys; from servonode.closed_loop.closed_loop import resolve; from servonode.closed_loop.launch_file "
    code += (
        "import read_launch; resolve(read_launch('trailer_pursuit')); assert 'importlib.metadata' not in sys.modules"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr


# keys of a driver's own


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_wheels(tmp_path_factory.mktemp("wheels"))


def test_keys_of_its_own_are_checked_by_the_drivers_struct_and_by_the_driver(wheels: Path) -> None:
    section = "[plant.device.settings] "
    refused = {
        "plant.device.settings.prot=9950": f"{section}prot: unknown key of driver wheels; did you mean port? choose ho",
        "plant.device.settings.port=80": f"{section}port: 80 cannot be taken by driver wheels: expected `int` >= 1024",
        'plant.device.settings.port="a"': f"{section}port: 'a' cannot be taken by driver wheels: expected `int`, got",
        "run.speed=2": "[run] speed: 2 is not the speed of this robot; give 1",
    }
    given = ("plant.driver=wheels", "plant.safety.limit=1")
    assert_refused(wheels, {(*given, setting): text for setting, text in refused.items()})


def test_a_rehearsal_with_a_simulation_passes_the_keys_over(wheels: Path) -> None:
    found = run(wheels, "simulated", "plant.device.settings.port=9950")
    assert found.returncode == 0
    assert "plant.device.settings is not used: it is for a driver with keys of its own" in found.stderr
