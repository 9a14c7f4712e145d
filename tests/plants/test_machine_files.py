"""Machines in files that an installed package reads, and surfaces of bodies that any machine's file may state."""

import json
from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.definitions.references import NotFound, ending_of, kind_of
from servonode.errors import ModelError, StatementError
from servonode.plants import MachineSource, find_machine
from servonode.views.frames import Frames, placed_solids
from tests.helpers.packages import EXAMPLES, install_groups
from tests.helpers.refusals import command, refused_command
from tests.helpers.wings import wing

READER = """
import json
from cart_equations import model
from servonode.export.exports import Export
from servonode.plants.machine_files import FileDefinition, MachineFiles

class Cart(FileDefinition):
    def call(self, *arguments, **options):
        return model()

    def readers(self):
        return ["carts 1"]

def write(model, name, file):
    return f"# {name} of {file}: {model.name}\\n"

FILES = MachineFiles("a file of carts, whose name ends in .cart", Cart.found, source=write)
NO_PYTHON = MachineFiles("another file of carts", Cart.found)
MASS = Export("Print the mass.", text=lambda loop: json.dumps(dict(loop.machine.parameters)))
"""
LAUNCH = '[run]\nduration = 0.1\n[plant]\nmachine = "mine.cart"\ninitial.x_dot = 2.0\n'
SHAPED = '''
import numpy as np
from servonode.mechanics import Model, coordinate, link, parameter, slide, tree
from servonode.plants.machine_files import Solid, Solids

SOLIDS = Solids((Solid("block", np.eye(3), np.array([[0, 1, 2]])), Solid("lost", np.eye(3), np.array([[0, 1, 2]]))))

def model():
    """A block that slides."""
    x, m = coordinate("x", "position", "m"), parameter("m", "mass", "kg", default=1.0)
    return Model(
        name="block", description="block", tree=tree([link("block", joints=(slide(x, (1, 0, 0)),), mass=m)]),
        parameters=(m,),
    )
'''


@pytest.fixture
def carts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of carts, and the package that reads them."""
    site = tmp_path / "site"
    groups = {
        "servonode.sources": {"cart": "carts:FILES", "sled": "carts:NO_PYTHON", "gone": "no_such_module:FILES"},
        "servonode.exports": {"mass": "carts:MASS"},
    }
    equations = (EXAMPLES / "extension" / "cart_equations.py").read_text()
    install_groups(site, "carts", groups, carts=READER, cart_equations=equations)
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    for name, text in (("mine.cart", "cart"), ("mine.sled", "sled"), ("mine.gone", ""), ("a.toml", LAUNCH)):
        Path(name).write_text(text)
    return tmp_path


def test_a_file_of_an_installed_packages_ending_is_a_machine_and_stands_for_a_launch_file(carts: Path) -> None:
    assert servonode.simulate(carts / "a.toml").state["x"][-1] == pytest.approx(0.2)
    assert servonode.load(carts / "mine.cart").closed_loop.machine.description.name == "cart"
    assert kind_of("mine.cart") == "robot"
    definition = find_machine("mine.cart", carts)
    before = MachineSource(definition).key
    (carts / "mine.cart").write_text("another")
    assert MachineSource(definition).key != before


def test_what_reads_a_machine_is_part_of_its_key(carts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    definition = find_machine("mine.cart", carts)
    before = MachineSource(definition).key
    monkeypatch.setattr(type(definition), "readers", lambda _: ["carts 2"])
    assert MachineSource(definition).key != before


@pytest.mark.usefixtures("carts")
def test_new_writes_such_a_machine_as_python_where_its_reader_can() -> None:
    assert command("new", "machine", "tram", "--from", "mine.cart").exit_code == 0
    assert Path("tram.py").read_text() == "# tram of mine.cart: cart\n"
    assert "x_goal" in Path("tram.toml").read_text()
    assert "such a machine cannot be written as Python" in refused_command("new", "machine", "--from", "mine.sled")
    words = ("new", "machine", "--from", "mine.cart", "--set", "plant.robot.base=free")
    assert "--set plant.robot.base=free: --from takes none" in refused_command(*words)


@pytest.mark.usefixtures("carts")
def test_show_prints_by_the_export_of_a_package() -> None:
    assert json.loads(command("show", "a.toml", "--to", "mass").output) == {"m": 2.0}
    assert json.loads(servonode.load("a.toml").show("mass")) == {"m": 2.0}
    assert "--to: no export 'mas' prints a machine" in refused_command("show", "a.toml", "--to", "mas")
    assert "--c and --to exclude each other" in refused_command("show", "a.toml", "--c", "--to", "mass")
    known = "text, latex, c or urdf" if wing("robots") else "text, latex or c"
    with pytest.raises(StatementError, match=f"form='mas' is unknown; choose {known}"):
        servonode.load("a.toml").show("mas")


def test_a_broken_reader_is_named_and_endings_of_servonodes_own_files_are_nobodys(carts: Path) -> None:
    with pytest.raises(NotFound, match=r"package carts 1\.0: its source of machines 'gone' .* cannot be imported"):
        find_machine("mine.gone", carts)
    found = [ending_of(each) for each in ("a.toml", "a.py", "./a.py:model", "cart", "a.b:model", "A.CART", "a.crt")]
    assert found == ["", "", "", "", "", "cart", ""]


def test_a_machine_in_python_may_state_the_surfaces_of_its_bodies(tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(SHAPED)
    (tmp_path / "a.toml").write_text('[run]\nduration = 0.1\n[plant]\nmachine = "./block.py:model"\n')
    closed_loop = servonode.load(tmp_path / "a.toml").closed_loop
    found, left_out = placed_solids(closed_loop, Frames(closed_loop))
    assert [each.frame for each in found] == ["block"]  # the other has no frame
    assert left_out == ()
    np.testing.assert_array_equal(found[0].points, np.eye(3))
    (tmp_path / "block.py").write_text(SHAPED.replace("SOLIDS = Solids(", "SOLIDS = tuple("))
    with pytest.raises(ModelError, match="SOLIDS is no Solids; write it as SOLIDS = Solids"):
        servonode.load(tmp_path / "a.toml").closed_loop.source.solids()
