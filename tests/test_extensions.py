"""What a package adds, one of each kind: the package of examples/extension, installed and used, and broken ones."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.helpers.packages import EXAMPLES, install_example, install_groups

FOLDER = EXAMPLES / "extension"
ENTRIES = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]["entry-points"]
SHORT = ("--set", "run.duration=0.5")


class Site:
    """A folder of installed packages, and the command line that finds them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Python with these words, as a user has it who has installed the packages."""
        path = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = os.environ | {"PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )

    def __call__(self, *words: str) -> str:
        """What the command line prints."""
        done = self.run("-m", "servonode.cli.main", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *words: str) -> str:
        """The one line with which it refuses."""
        done = self.run("-m", "servonode.cli.main", *words)
        assert done.returncode == 2, done.stdout
        (line,) = (each for each in done.stderr.splitlines() if not each.startswith("servonode: deriving "))
        return line


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The package of examples/extension, installed."""
    folder = install_example(tmp_path_factory.mktemp("site"), "extension")
    (folder / "cart.toml").write_text((FOLDER / "cart.toml").read_text())
    return Site(folder)


def test_its_machine_program_and_driver_are_listed_and_run(site: Site) -> None:
    assert "from cart_equations" in site("list", "machines")
    assert "from cart_equations" in site("list", "programs")
    found = json.loads(site("list", "drivers", "--json"))["cart_simulation"]
    assert found == {"summary": "a simulation, by another package", "origin": "package servonode-cart 1.0"}
    assert "energy check" in site("run", "cart.toml", *SHORT, "--no-report")


def test_what_it_adds_is_listed_and_its_command_completed(site: Site) -> None:
    found = json.loads(site("list", "extensions", "--json"))
    assert found["commands energy"] == "cart_commands:energy (package servonode-cart 1.0)"
    typed = {"_SERVONODE_COMPLETE": "bash_complete", "COMP_WORDS": "servonode ener", "COMP_CWORD": "1"}
    asked = f"import os; os.environ |= {typed}"
    done = site.run("-c", f"{asked}\nfrom servonode.cli.main import main\nmain(prog_name='servonode')")
    assert done.stdout == "plain,energy\n"


def test_its_command_is_one_of_servonode(site: Site) -> None:
    assert site("energy", "cart.toml", "--set", "plant.initial.x_dot=2") == "4 J\n"
    assert "Print the energy of FILE's machine at its start." in site("energy", "--help")


def test_its_files_are_machines(site: Site) -> None:
    (site.folder / "heavy.cart").write_text("8.0\n")
    heavy = ("energy", "cart.toml", "--set", "plant.machine=heavy.cart", "--set", "plant.initial.x_dot=2")
    assert site(*heavy) == "16 J\n"
    (site.folder / "wrong.cart").write_text("heavy\n")
    assert "wrong.cart line 1: no number; write the mass of the cart" in site.refused(
        *heavy[:3], "plant.machine=wrong.cart"
    )


def test_its_section_is_one_of_launch_files(site: Site) -> None:
    moving = ("energy", "cart.toml", "--set", "plant.initial.x_dot=2", "--set")
    assert site(*moving, "energy.unit=kJ") == "0.004 kJ\n"
    assert '--set energy.unit: "mJ" is unknown; ' in site.refused(*moving, "energy.unit=mJ")


def test_its_export_and_its_report_are_written(site: Site) -> None:
    site("run", "cart.toml", *SHORT, "--no-report", "--record", "cart.mcap")
    assert "(9 topics)" in site("bag", "export", "cart.mcap", "cart.topics", "--to", "topics")
    assert "plant/state" in (site.folder / "cart.topics").read_text()
    site("simulate", "cart.toml", *SHORT, "--report", "cart.txt")
    assert (site.folder / "cart.txt").read_text().startswith("cart: the cart went ")


def test_a_broken_package_is_one_line_where_its_name_is_used_and_the_rest_works(tmp_path: Path) -> None:
    broken = Site(install_groups(tmp_path, "gone", {"servonode.commands": {"lost": "no_such_module:lost"}}))
    install_groups(
        tmp_path, "other", {"servonode.commands": {"text": "other_module:TEXT"}}, other_module="TEXT = 'a'\n"
    )
    text = "package gone 1.0: its command 'lost' (no_such_module:lost) cannot be imported (ModuleNotFoundError"
    assert text in broken.refused("lost")
    assert "package other 1.0: its command 'text' (other_module:TEXT) is of type str" in broken.refused("text")
    assert "there is no command 'losst'; did you mean lost" in broken.refused("losst")
    assert "trailer_pursuit" in broken("list", "launch")


def test_a_package_whose_metadata_is_broken_costs_nobody_else_a_name(tmp_path: Path, site: Site) -> None:
    metadata = install_groups(tmp_path, "torn", {}) / "torn-1.0.dist-info" / "entry_points.txt"
    metadata.write_text("[servonode.commands]\nno equals sign\n")
    torn = Site(tmp_path)
    done = torn.run("-m", "servonode.cli.main", "chck", "trailer_pursuit")
    told, refused = done.stderr.splitlines()
    assert "package torn 1.0: its entry points cannot be read" in told
    assert "there is no command 'chck'; did you mean check?" in refused
    (tmp_path / "torn_machine.py").write_text("raise RuntimeError('no licence')\n")
    install_groups(tmp_path, "raises", {"servonode.machines": {"boom": "torn_machine:model"}})
    done = torn.run("-m", "servonode.cli.main", "check", "trailer_pursuit", "--set", "plant.machine=boom")
    assert "package raises 1.0: its machine 'boom' (torn_machine:model) cannot be used" in done.stderr.splitlines()[-1]


def test_the_page_names_every_kind_that_the_package_adds() -> None:
    page = (FOLDER.parents[1] / "docs" / "how_to" / "extend.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(servonode\.\w+)` \|", page, re.MULTILINE)) == ENTRIES.keys()
