"""What it takes to add a driver: its name in the table, or in an installed package; errors where one is broken."""

import json
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from servonode.cli.main import main
from servonode.plants.drivers import DRIVERS, our_names
from tests.helpers.extras import json_validator
from tests.helpers.null_driver import DRIVER
from tests.helpers.packages import install, install_wheels
from tests.helpers.stepped import Bench, puck

ROOT = Path(__file__).parents[2]
NULL = (ROOT / "tests" / "helpers" / "null_driver.py").read_text()
BROKEN = {
    "gone": "package gone 1.0: its driver 'gone' (no_such_module:DRIVER) cannot be imported (ModuleNotFoundError",
    "raises": "package raises 1.0: its driver 'raises' (raising:DRIVER) cannot be imported (RuntimeError: no lic",
    "wrong_type": "package wrong-type 1.0: its driver 'wrong_type' (raising_not:DRIVER) is of type dict, not a",
    "other": "package misnamed 1.0: its driver 'other' (null_driver:DRIVER) calls itself 'null'; entry point and",
    "twice": "package first 1.0 and package second 1.0 both have a driver 'twice'",
    "nul": '"nul" is unknown; did you mean null? Choose ',
}


def servonode(*words: str) -> Result:
    """What the command line says."""
    return CliRunner().invoke(main, words)


def check(*settings: str) -> Result:
    """What it says of a launch file with these settings."""
    return servonode("check", "trailer_pursuit", *(word for each in settings for word in ("--set", each)))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def packages(site: Path) -> Path:
    """One good driver of another package, and every kind of broken one."""
    install(site, "null-driver", {"null": "null_driver:DRIVER"}, null_driver=NULL)
    install(site, "gone", {"gone": "no_such_module:DRIVER"})
    install(site, "raises", {"raises": "raising:DRIVER"}, raising="raise RuntimeError('no licence')\n")
    install(site, "wrong-type", {"wrong_type": "raising_not:DRIVER"}, raising_not="DRIVER = {'name': 'wrong_type'}\n")
    install(site, "misnamed", {"other": "null_driver:DRIVER"})
    install(site, "shadow", {"simulated": "null_driver:DRIVER"})
    install(site, "first", {"twice": "null_driver:DRIVER"})
    install(site, "second", {"twice": "null_driver:DRIVER"})
    return site


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(("driver", "moves"), [("null", False), ("simulated", True)])
def test_a_launch_file_runs_with_the_driver_of_a_package_which_takes_no_place_of_ours(
    driver: str, moves: bool, tmp_path: Path
) -> None:
    bench = Bench(puck(tmp_path, f"plant.driver={driver}")).activate()
    before = bench.node.plant.x.tolist()
    bench.period(1.0)
    assert bench.written[-1] == (1.0, 0.0), "the law asks for forces"
    assert (bench.node.plant.x.tolist() != before) == moves


@pytest.mark.usefixtures("packages")
def test_a_broken_package_and_what_a_driver_does_not_read_are_one_error() -> None:
    unread = '[plant.sensor] noise: is for driver = "simulated" or "loopback"'
    cases = {(f"plant.driver={name}",): text for name, text in BROKEN.items()}
    for given, text in (cases | {("plant.driver=null", "plant.sensor.noise={phi=0.001}"): unread}).items():
        found = check(*given)
        assert (found.exit_code, found.stderr.count("\n")) == (2, 1), given
        assert text in found.stderr


@pytest.mark.usefixtures("packages")
def test_the_list_shows_all_of_them_and_where_they_come_from() -> None:
    found = json.loads(servonode("list", "drivers", "--json").stdout)
    assert found["simulated"] == {"summary": "a simulation", "origin": "servonode"}
    assert found["null"] == {"summary": "a plant that stands still", "origin": "package null-driver 1.0"}
    assert found["gone"].keys() == {"error", "origin"}
    taken = found["simulated (package shadow 1.0)"]["error"]
    assert "'simulated' has the name of one that comes with servonode" in taken
    text = " ".join(servonode("list", "drivers").stdout.split())
    assert " null a plant that stands still (package null-driver 1.0) " in text


@pytest.mark.usefixtures("packages")
def test_the_schema_for_editors_knows_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert servonode("new", "schema", "launch").exit_code == 0
    schema = json_validator(json.loads((tmp_path / "launch.json").read_text()))
    launch = {"run": {"duration": 1.0}, "plant": {"machine": "a", "driver": "null"}}
    assert schema.is_valid(launch)
    assert not schema.is_valid({**launch, "plant": {"machine": "a", "driver": "nul"}})


def test_the_reference_page_knows_a_driver_of_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ", ".join(f"`{name}`" for name in our_names())  # at import
    monkeypatch.setitem(DRIVERS, "null", DRIVER)
    runpy.run_path(str(ROOT / "docs/_extensions/launch_reference.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "| `null` | a plant that stands still |" in said
    assert f"| connection between plant node and machine ({names}) |" in said


# keys of a driver's own

SECTION = "[plant.device.settings] "


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (
            "plant.device.settings.prot=9950",
            f"{SECTION}prot: unknown key of driver wheels; did you mean port? choose ho",
        ),
        (
            "plant.device.settings.port=80",
            f"{SECTION}port: 80 cannot be taken by driver wheels: expected `int` >= 1024",
        ),
        ('plant.device.settings.port="a"', f"{SECTION}port: 'a' cannot be taken by driver wheels: expected `int`, got"),
        ("run.speed=2", "[run] speed: 2 is not the speed of this robot; give 1"),
    ],
)
def test_keys_of_its_own_are_checked_by_the_drivers_struct_and_by_the_driver(
    setting: str, text: str, site: Path
) -> None:
    install_wheels(site)
    found = check("run.speed=1", "plant.driver=wheels", "plant.safety.limit=1", setting)
    assert (found.exit_code, text in found.stderr) == (2, True), found.stderr


def test_a_rehearsal_with_a_simulation_passes_the_keys_over(site: Path) -> None:
    install_wheels(site)
    found = check("plant.device.settings.port=9950")
    assert found.exit_code == 0
    assert "plant.device.settings is not used: it is for a driver with keys of its own" in found.output
