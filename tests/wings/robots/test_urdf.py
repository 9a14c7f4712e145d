"""Machines as URDF, read back by Pinocchio, MuJoCo and servonode's own reader."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from servonode.api import load
from servonode.arrays import Array
from servonode.errors import StatementError
from servonode.mechanics import Model, ball, coordinate, hinge, link, parameter, slide, tree, vector, velocity
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource, find_machine
from servonode.wings.robots.urdf import urdf_text
from tests.helpers.extras import needs_mujoco
from tests.helpers.refusals import command, refused_command
from tests.helpers.robots import ARM, ODD, machine_of

needs_mujoco()
ROOT = Path(__file__).parents[3]
# of a free trunk with joints in every direction, two of them on one body; without what URDF lacks
LACKING = ('armature=".02"', 'armature=".01"', 'stiffness="3" springref="5"')
TREE = ODD.replace('<joint name="b" type="ball"', '<joint name="b" axis="0 1 1"').replace("0.3 0 -9.7", "0 0 -9.81")
for each in LACKING:
    TREE = TREE.replace(each, "")


def written(source: MachineSource, folder: Path, **changed: float) -> tuple[Machine, Path]:
    """The compiled machine with changed parameters, and its URDF in a file."""
    machine = source.load({}).with_parameters(changed)
    file = folder / "written.urdf"
    file.write_text(urdf_text(source.build(), machine.parameters))
    return machine, file


def source_of(text: str, folder: Path) -> MachineSource:
    file = folder / ("robot.xml" if text.startswith("<mujoco") else "robot.urdf")
    file.write_text(text)
    return MachineSource(find_machine(file.name, folder), {})


def pinocchio_energies(file: Path, values: dict[str, float]) -> tuple[float, float]:
    """Kinetic and potential energy by Pinocchio, at states by the names of coordinates and rates."""
    pin = pytest.importorskip("pinocchio", reason="needs Pinocchio: uv sync --group robots")
    model = pin.buildModelFromUrdf(str(file))
    q, v = pin.neutral(model), np.zeros(model.nv)
    for name, joint in list(zip(model.names, model.joints, strict=True))[1:]:
        if joint.nq == 7:  # a free body, whose velocity Pinocchio has in its own axes
            turn = [values[f"q_{i}"] for i in (1, 2, 3, 0)]
            q[joint.idx_q : joint.idx_q + 7] = [*(values[each] for each in "xyz"), *turn]
            rates = np.array([values[f"{each}_dot"] for each in "xyz"])
            inside = pin.Quaternion(np.array(turn)).toRotationMatrix().T @ rates
            v[joint.idx_v : joint.idx_v + 6] = [*inside, *(values[f"omega_{i}"] for i in range(3))]
            continue
        angle = values[name]
        q[joint.idx_q : joint.idx_q + joint.nq] = [np.cos(angle), np.sin(angle)] if joint.nq == 2 else [angle]
        v[joint.idx_v] = values[f"{name}_dot"]
    data = model.createData()
    return pin.computeKineticEnergy(model, data, q, v), pin.computePotentialEnergy(model, data, q)


def random_state(machine: Machine, rng: np.random.Generator) -> Array:
    x = np.append(rng.uniform(-1, 1, machine.n_state), 0.0)
    names = machine.description.state_names
    if "q_0" in names:
        at = names.index("q_0")
        x[at : at + 4] /= np.linalg.norm(x[at : at + 4])
    return x


@pytest.mark.parametrize("text", [TREE, ARM])
def test_a_machine_as_urdf_has_its_energies_by_pinocchio(text: str, tmp_path: Path) -> None:
    # at more states than the mass matrix has entries, so it is the same matrix
    machine, file = written(source_of(text, tmp_path), tmp_path)
    rng, offsets = np.random.default_rng(3), []
    for _ in range(60):
        x = random_state(machine, rng)
        kinetic, potential = machine.energies(0.0, x)
        found, height = pinocchio_energies(file, dict(zip(machine.description.state_names, x.tolist(), strict=False)))
        assert kinetic == pytest.approx(found, rel=1e-12)
        offsets.append(potential - height)
    assert np.ptp(offsets) < 1e-12 * max(1.0, abs(offsets[0]))


def test_changed_parameters_are_those_of_the_file_and_the_machine_read_back_moves_alike(tmp_path: Path) -> None:
    machine, file = written(source_of(ARM, tmp_path), tmp_path, fore_mass=3.5, fore_centre_x=0.2)
    again = machine_of(file)
    rng = np.random.default_rng(4)
    for _ in range(20):
        x, u = np.append(rng.uniform(-1, 1, machine.n_state), 0.0), rng.uniform(-1, 1, machine.n_inputs)
        assert again.derivatives(0.0, x, u) == pytest.approx(machine.derivatives(0.0, x, u), rel=1e-11, abs=1e-11)
    assert again.description.inputs[0].limit == machine.description.inputs[0].limit == 5.0


def test_ranges_efforts_speeds_and_damping_stand_at_the_joints(tmp_path: Path) -> None:
    text = ARM.replace('velocity="3"/>', 'velocity="3"/><dynamics damping="0.7"/>', 1)
    _, file = written(source_of(text, tmp_path), tmp_path)
    joints = {each.get("name"): each for each in ET.parse(file).getroot().findall("joint")}
    limit, dynamics = joints["pan"].find("limit"), joints["pan"].find("dynamics")
    assert limit is not None
    assert {word: float(value) for word, value in limit.items()} == {
        "lower": -1.0, "upper": 2.0, "effort": 5.0, "velocity": 3.0,
    }  # fmt: skip
    assert dynamics is not None
    assert float(dynamics.get("damping", 0)) == 0.7
    assert joints["left_lift"].find("dynamics") is None


def crane(**more: Any) -> Model:
    """A trolley with a rod whose length is a parameter: one slide and one hinge in a link."""
    x, theta = coordinate("x", "trolley", "m"), coordinate("theta", "rod", "rad")
    length = parameter("length", "of the rod", "m", default=2.0, above=0)
    rod = link("rod", joints=(slide(x, (1, 0, 0)), hinge(theta, (0, 1, 0))), mass=3, centre=(0, 0, -length))
    return Model(name="crane", description="a rod on a trolley", tree=tree([rod]), parameters=(length,), **more)


def test_a_tree_in_python_is_written_with_what_it_cannot_say_at_the_top(tmp_path: Path) -> None:
    length, x = parameter("length", "of the rod", "m", default=2.0, above=0), coordinate("x", "trolley", "m")
    text = urdf_text(crane(potential=x**2), {"length": 1.5})
    assert "<!-- left out: springs, dry friction and other forces of the machine -->" in text
    root = ET.fromstring(text)
    assert [each.get("name") for each in root.findall("link")] == ["ground", "rod_x", "rod"]
    assert [each.get("type") for each in root.findall("joint")] == ["prismatic", "continuous"]
    origin = root.find("link[@name='rod']/inertial/origin")
    assert origin is not None
    assert origin.get("xyz") == f"0.0 0.0 {-1.5}"
    assert length.name == "length"


def test_what_urdf_lacks_is_refused() -> None:
    q = vector(coordinate, "q", "orientation", start=(1, 0, 0, 0))
    hung = link("hung", joints=(ball(q, vector(velocity, "w", "spin", "rad/s")),), mass=1, centre=(0, 0, -1))
    with pytest.raises(StatementError, match="link hung has a ball joint, which URDF lacks; state it as three hinges"):
        urdf_text(Model(name="hung", description="a pendulum", tree=tree([hung])), {})
    said = refused_command("show", "trailer_pursuit", "--urdf")
    assert "diff_drive_trailer has no bodies" in said
    assert "Model(tree=...)" in said


@pytest.mark.slow
def test_a_launch_file_of_a_robot_is_shown_as_urdf() -> None:
    file = str(ROOT / "examples/arm/figure_of_eight.toml")
    printed = command("show", file, "--urdf")
    assert printed.exit_code == 0
    assert ET.fromstring(printed.output).get("name") == "arm"
    assert load(file).show("urdf") == printed.output.rstrip("\n")
