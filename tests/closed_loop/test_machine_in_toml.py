"""Machines that a launch file states itself, [plant.machine], against their Python forms; what else uses one."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import launch_of_table, read_launch, table_of
from servonode.closed_loop.launch_text import table_text
from servonode.errors import StatementError
from servonode.nodes.meeting import differences, manifest
from tests.helpers.recorded import recorded
from tests.helpers.refusals import command

Table = dict[str, Any]
FILES = Path(__file__).parent / "textbook"
MACHINES = {
    "furuta": """
        name = "furuta"
        coordinates = { alpha = "rad", theta = "rad" }
        parameters = { J = 0.01, m = 0.1, r = 0.2, L = 0.3, g = 9.81, c = 1e-3 }
        inputs = { tau = "alpha_dot" }
        kinetic = "(J*alpha_dot**2 + m*(across_dot**2 + height_dot**2 + (L*alpha_dot*sin(theta))**2))/2"
        potential = "m*g*height"
        dissipation = "c*alpha_dot**2/2"
        [terms]
        across = "r*alpha + L*sin(theta)"
        height = "-L*cos(theta)"
    """,
    "cart_pole": """
        coordinates = { x = "m", theta = { unit = "rad", description = "angle of the pole" } }
        parameters = { M = 1, m = { default = 1.0, unit = "kg", above = 0 }, L = 1.0, g = 9.81 }
        inputs = { F = { acts_on = "x_dot", unit = "N", limit = 5000 } }
        kinetic = "(M*x_dot**2 + m*((x_dot + L*theta_dot*cos(theta))**2 + (L*theta_dot*sin(theta))**2))/2"
        potential = "-m*g*L*cos(theta)"
    """,
    "disc": """
        coordinates = { x = "m", y = "m", psi = "rad", theta = "rad", phi = "rad" }
        parameters = { m = 0.5, r = 0.3, k = 0.25, g = 9.81 }
        kinetic = "m*(cx_dot**2 + cy_dot**2 + cz_dot**2)/2 + k*m*r**2*(theta_dot**2 + across**2 + 2*axial**2)/2"
        potential = "m*g*cz"
        constraints = { Rx = "x_dot - r*phi_dot*cos(psi)", Ry = { expression = "y_dot - r*phi_dot*sin(psi)" } }
        independent = ["psi", "theta", "phi"]
        [terms]
        cx = "x + r*sin(theta)*sin(psi)"
        cy = "y - r*sin(theta)*cos(psi)"
        cz = "r*cos(theta)"
        axial = "phi_dot + psi_dot*sin(theta)"
        across = "psi_dot*cos(theta)"
    """,
    "sleigh": """
        coordinates = { x = "m", y = "m", psi = "rad" }
        velocities = { v = "m/s", w = { unit = "rad/s", description = "yaw rate" } }
        kinematics = { x = "v*cos(psi)", y = "v*sin(psi)", psi = "w" }
        parameters = { m = 2.0, I = 0.3, a = 0.25 }
        kinetic = "(m*((x_dot - a*psi_dot*sin(psi))**2 + (y_dot + a*psi_dot*cos(psi))**2) + I*psi_dot**2)/2"
        constraints = { N = "y_dot*cos(psi) - x_dot*sin(psi)" }
    """,
}
STARTS: dict[str, Table] = {
    "furuta": {"theta": 0.5, "alpha_dot": 0.4},
    "cart_pole": {"theta": 0.6, "x_dot": -0.2},
    "disc": {"theta": 0.2, "psi_dot": 1.0, "phi_dot": 4.0},
    "sleigh": {"v": 0.8, "w": 2.0},
}
RESIDUALS = {"furuta": {"arm": "alpha - 0.4*sin(2*t)"}, "cart_pole": {"cart": "x - 0.5*sin(t)"}}


def launch(name: str, machine: str | Table | None = None, **more: Any) -> Table:
    """The table of a launch file with a machine of MACHINES."""
    stated = tomllib.loads(MACHINES[name]) if machine is None else machine
    table: Table = {"run": {"duration": 2.0, "mode": "lockstep"}}
    table["plant"] = {"machine": stated, "initial": dict(STARTS[name])}
    if name in RESIDUALS:
        table["controller"] = {"residuals": RESIDUALS[name]}
    return table | more


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A launch file with the cart and its pole, which states a fault, an output and a safe action too."""
    table = launch("cart_pole")
    machine = table["plant"]["machine"]
    machine |= {"faults": {"over": "abs(theta) < 1.5"}, "outputs": {"tip": "x + L*sin(theta)"}}
    machine |= {"safe": {"F": "-2*x_dot"}, "forces": [{"force": "-0.1*x_dot", "acts_on": "x_dot"}]}
    made = tmp_path / "cart.toml"
    made.write_text(table_text(table))
    return made


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_in_toml_moves_as_its_python_form(name: str) -> None:
    in_toml, in_python = (servonode.simulate(launch(name, each)) for each in (None, f"{FILES}/{name}.py:model"))
    names = in_python.closed_loop.machine.description.state_names
    assert set(names) == set(in_toml.closed_loop.machine.description.state_names)
    for each in names:
        assert_allclose(in_toml.columns[each], in_python.columns[each], rtol=1e-12, atol=1e-12)
    assert np.ptp(in_toml.columns[names[0]]) > 0.1


def test_an_input_on_a_coordinate_has_the_unit_of_its_force() -> None:
    units = [resolve(launch_of_table(launch(name))).machine.description.inputs[0].unit for name in RESIDUALS]
    assert units == ["N m", "N"]


def test_a_launch_file_is_read_again_from_all_its_keys(file: Path) -> None:
    read = read_launch(file)
    again = launch_of_table(tomllib.loads(table_text(table_of(read))))
    assert again.plant == read.plant


def test_the_machine_is_known_by_what_is_stated_of_it_and_not_by_its_place(file: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "other.toml"
    moved.parent.mkdir()
    moved.write_text(file.read_text())
    first, second = (resolve(read_launch(each)) for each in (file, moved))
    other = resolve(read_launch(file, ["plant.machine.outputs.tip=2*x"]))
    assert first.source.key == second.source.key != other.source.key


def test_a_recording_carries_the_machine_and_needs_no_trust(file: Path, tmp_path: Path) -> None:
    bag = recorded(tmp_path / "run.mcap", file)
    file.unlink()
    answer = command("replay", str(bag), "--no-code")
    assert answer.exit_code == 0, answer.output
    assert " 0 differ" in answer.output
    assert command("bag", "info", str(bag)).exit_code == 0


def test_its_parameters_vary_in_a_sweep_and_while_a_loop_is_loaded(file: Path) -> None:
    loop = servonode.load(file)
    heavy = loop.simulate(values={"plant.parameters.m": 2.0, "run.duration": 1.0})
    assert heavy.closed_loop.machine.parameters["m"] == 2.0
    with pytest.raises(StatementError, match="part of the machine's equations, which is derived"):
        loop.simulate(values={"plant.machine.parameters.M": 2.0})


def test_two_computers_compare_what_stands_in_it(file: Path) -> None:
    here = manifest(resolve(read_launch(file)))
    assert differences(here, manifest(resolve(read_launch(file)))) == []
    there = manifest(resolve(read_launch(file, ["plant.machine.parameters.L=2"])))
    assert "[plant.machine.parameters] L is 1.0 here and 2.0 there" in " ".join(differences(here, there))


def test_it_is_checked_shown_and_written_as_c(file: Path) -> None:
    said = {verb: command(*verb.split(), str(file)) for verb in ("check", "show", "show --c", "show --latex")}
    assert {verb: each.exit_code for verb, each in said.items()} == dict.fromkeys(said, 0)
    assert "verdict          yes" in said["check"].stdout


def test_its_drawing_moves_with_it() -> None:
    table = launch("cart_pole")
    table["plant"]["machine"]["drawing"] = [{"line": [["x", 0], ["x + L*sin(theta)", "-L*cos(theta)"]]}]
    loop = resolve(launch_of_table(table))
    drawn = loop.machine.drawing(0.0, np.array([0.5, np.pi / 2, 0.0, 0.0, 0.0]), np.zeros(1))
    assert_allclose(drawn, [0.5, 0.0, 1.5, 0.0], atol=1e-15)


def test_a_constant_expression_stands_for_a_number(file: Path) -> None:
    stated = ["plant.initial.theta=pi/4", "plant.safety.state_limit.theta=2*pi", "run.duration=1/2"]
    read = read_launch(file, stated)
    assert read.plant.initial["theta"] == np.pi / 4
    assert read.plant.safety.state_limit == {"theta": 2 * np.pi}
    assert read.run.duration == 0.5
    assert servonode.load(file).simulate(values={"plant.initial.theta": "pi/4"}).columns["theta"][0] == np.pi / 4
