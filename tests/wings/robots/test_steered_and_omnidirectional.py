"""Wheels with rollers, and steered wheels: their equations against a second derivation in numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.arrays import Array
from servonode.errors import ServonodeError
from servonode.mechanics.machine import Machine
from servonode.plants import find_machine
from tests.helpers.extras import needs_mujoco
from tests.helpers.rolling_robots import joint, link, robot_machine, urdf

needs_mujoco()
EXAMPLES = Path(__file__).parents[3] / "examples"
R, MASS, CENTRE, YAW = 0.1, 3.0, np.array([0.02, 0.01]), 0.1
SPIN, ACROSS, FORK = 0.00028, 0.00014, (0.5, 0.01)  # of a wheel of 1 kg; mass and yaw inertia of a fork
CORNERS = {"fl": (0.3, 0.2), "fr": (0.3, -0.2), "rl": (-0.3, 0.2), "rr": (-0.3, -0.2)}
MECANUM = {"fl": np.pi / 4, "fr": -np.pi / 4, "rl": -np.pi / 4, "rr": np.pi / 4}


@dataclass(frozen=True)
class Placed:
    """A wheel in the oracle: its place, the angle of its forward direction to the base's, rollers, whether steered."""

    name: str
    x: float
    y: float
    turned: float = 0.0
    rollers: float | None = None
    steered: bool = False


def written(wheels: Sequence[Placed], up: str = "0 0 1") -> str:
    """The URDF of a base with these wheels."""
    parts = [link("base", MASS, (0.1, 0.1, YAW), f"{CENTRE[0]} {CENTRE[1]} 0")]
    for each in wheels:
        parent, place = "base", f"{each.x} {each.y} {R}"
        if each.steered:
            parts += [link(f"{each.name}_fork", FORK[0], (0.01, 0.01, FORK[1]))]
            parts += [joint(f"{each.name}_steer", "base", f"{each.name}_fork", place, up)]
            parent, place = f"{each.name}_fork", "0 0 0"
        axis = "0 1 0" if not each.turned else f"{-np.sin(each.turned)} {np.cos(each.turned)} 0"
        body = link(f"{each.name}_link", 1.0, (ACROSS, SPIN, ACROSS) if axis == "0 1 0" else (SPIN,) * 3,
                    shape=f'sphere radius="{R}"')  # fmt: skip
        parts += [body, joint(each.name, parent, f"{each.name}_link", place, axis)]
    return urdf(*parts)


class Oracle:
    """Planar bodies and points of contact in numbers; coordinates x, y, psi, angles of steering, angles of wheels."""

    def __init__(self, wheels: Sequence[Placed], geometry: Callable[[Array], Array] | None = None) -> None:
        self.wheels, self.geometry = wheels, geometry
        self.steered = [each.name for each in wheels if each.steered]
        self.names = ["x", "y", "psi", *(f"{name}_steer" for name in self.steered), *(each.name for each in wheels)]
        self.bodies = [(MASS, YAW, CENTRE, -1)]
        for each in wheels:
            across = SPIN if each.turned else ACROSS
            own = 3 + self.steered.index(each.name) if each.steered else -1
            self.bodies += [(1.0, across, np.array([each.x, each.y]), own)]
            self.bodies += [(FORK[0], FORK[1], np.array([each.x, each.y]), own)] if each.steered else []

    def point(self, q: Array, place: Array) -> Array:
        """The velocity of a point of the base by the rates (2, n)."""
        c, s = np.cos(q[2]), np.sin(q[2])
        found = np.zeros((2, len(q)))
        found[:, :2] = np.eye(2)
        found[:, 2] = np.array([[c, -s], [s, c]]) @ [-place[1], place[0]]
        return found

    def mass(self, q: Array) -> Array:
        M = np.zeros((len(q), len(q)))
        for mass, inertia, place, own in self.bodies:
            J, turn = self.point(q, place), np.zeros(len(q))
            turn[2] = 1
            if own >= 0:
                turn[own] = 1
            M += mass * J.T @ J + inertia * np.outer(turn, turn)
        M[-len(self.wheels) :, -len(self.wheels) :] += SPIN * np.eye(len(self.wheels))
        return M

    def rows(self, q: Array) -> Array:
        """The constraints by rates."""
        found = []
        for i, each in enumerate(self.wheels):
            angle = q[2] + each.turned + (q[3 + self.steered.index(each.name)] if each.steered else 0.0)
            J = self.point(q, np.array([each.x, each.y]))
            J_along, J_left = ((np.array(way) @ J) for way in
                               ((np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))))  # fmt: skip
            J_along[len(q) - len(self.wheels) + i] -= R
            if each.rollers is None:
                found += [J_along, J_left]
            else:  # the axis of the roller: that of the axle, to the left, turned counterclockwise
                found.append(np.cos(each.rollers) * J_left - np.sin(each.rollers) * J_along)
        if self.geometry:
            found += list(self.geometry(q))
        return np.array(found)

    def accelerations(self, q: Array, rate: Array, force: Array) -> Array:
        """By the multipliers of all constraints, with derivatives along the motion by differences."""
        h = 1e-5
        change = (self.mass(q + h * rate) - self.mass(q - h * rate)) / (2 * h)
        slopes = [rate @ (self.mass(q + h * e) - self.mass(q - h * e)) @ rate / (4 * h) for e in np.eye(len(q))]
        A = self.rows(q)
        moved = (self.rows(q + h * rate) - self.rows(q - h * rate)) / (2 * h) @ rate
        whole = np.block([[self.mass(q), A.T], [A, np.zeros((len(A), len(A)))]])
        right = np.concatenate([force - change @ rate + slopes, -moved])
        found: Array = np.linalg.lstsq(whole, right, rcond=1e-12)[0][: len(q)]
        return found


def compare(found: Machine, oracle: Oracle, q: Array, v: dict[str, float], rng: np.random.Generator) -> None:
    """At a state the rates keep the oracle's constraints, and change as it says."""
    names, n = found.description.state_names, len(oracle.names)
    state = dict(zip(oracle.names, q, strict=True)) | v
    x = np.append([state[name] for name in names], 0.0)
    u = rng.normal(size=found.n_inputs)

    def rates(at: Array) -> Array:
        by_name = dict(zip((*names, "work"), found.derivatives(0.0, at, u), strict=True))
        return np.array([by_name[name] for name in oracle.names])

    rate = rates(x)
    assert abs(oracle.rows(q) @ rate).max() < 1e-12
    h, slope = 1e-5, found.derivatives(0.0, x, u)
    change = (rates(x + h * slope) - rates(x - h * slope)) / (2 * h)  # of all rates along the motion
    force = np.zeros(n)
    for name, value in zip(found.description.input_names, u, strict=True):
        force[oracle.names.index(name.removesuffix("_torque"))] = value
    assert_allclose(change, oracle.accelerations(q, rate, force), rtol=1e-6, atol=1e-6)
    power = (found.energy(0.0, x + h * slope) - found.energy(0.0, x - h * slope)) / (2 * h)
    assert power == pytest.approx(force @ rate, rel=1e-6, abs=1e-7)


def model_of(folder: Path, name: str, **settings: Any) -> Any:
    """The Model of a robot's file, nothing compiled."""
    return find_machine(name, folder).call(**settings)


AROUND = [Placed(name, 0.2 * np.cos(a), 0.2 * np.sin(a), a + np.pi / 2, np.pi / 2)
          for name, a in (("a", 0.3), ("b", 0.3 + 2 * np.pi / 3), ("c", 0.3 + 4 * np.pi / 3))]  # fmt: skip


@pytest.mark.parametrize(
    "wheels", [[Placed(name, *place, 0.0, MECANUM[name]) for name, place in CORNERS.items()], AROUND],
    ids=["mecanum", "three omnidirectional"],
)  # fmt: skip
def test_a_base_on_rollers_moves_in_all_directions_as_the_oracle_says(
    wheels: list[Placed], tmp_path: Path, rng: np.random.Generator
) -> None:
    stated = {"wheels": {each.name: each.name for each in wheels}, "rollers": {w.name: w.rollers for w in wheels}}
    found, oracle = robot_machine(tmp_path, written(wheels), **stated), Oracle(wheels)
    assert found.description.state_names[-3:] == ("V", "Omega", "V_side")
    assert found.description.constraints == tuple(f"{each.name}_traction" for each in wheels)
    for _ in range(5):
        speeds = dict(zip(("V", "Omega", "V_side"), rng.normal(size=3), strict=True))
        compare(found, oracle, rng.normal(size=len(oracle.names)), speeds, rng)


def test_the_wheels_of_a_mecanum_base_turn_as_textbooks_say(tmp_path: Path) -> None:
    """(V -+ V_side -+ (lx + ly) Omega) / r, of the front left wheel with both minus signs."""
    wheels = [Placed(name, *place, 0.0, MECANUM[name]) for name, place in CORNERS.items()]
    found = robot_machine(tmp_path, written(wheels), wheels={name: name for name in CORNERS}, rollers=MECANUM)
    x = np.zeros(11)
    x[-4:-1] = V, Omega, side = 0.3, 0.5, -0.4
    rates = dict(zip(found.description.state_names, found.derivatives(0.0, x, np.zeros(4)), strict=False))
    turn = (0.3 + 0.2) * Omega
    wanted = {"fl": V - side - turn, "fr": V + side + turn, "rl": V + side - turn, "rr": V - side + turn}
    assert_allclose([rates[name] * R for name in wanted], list(wanted.values()), atol=1e-14)


def test_wheels_with_rollers_follow_beside_driven_ones(tmp_path: Path) -> None:
    wheels = [Placed(name, *place) for name, place in CORNERS.items()]
    found = robot_machine(
        tmp_path, written(wheels), wheels={name: name for name in CORNERS}, rollers={"fl": np.pi / 2, "fr": np.pi / 2}
    )
    assert found.description.state_names[-2:] == ("V", "Omega")
    x = np.zeros(10)
    x[-3:-1] = 0.3, 0.5
    rates = dict(zip(found.description.state_names, found.derivatives(0.0, x, np.zeros(4)), strict=False))
    assert_allclose([rates["fl"] * R, rates["fr"] * R], [0.3 - 0.2 * 0.5, 0.3 + 0.2 * 0.5], atol=1e-14)
    assert rates["y"] == pytest.approx(0.3 * 0.5)  # the origin is 0.3 m ahead of the rear axle


WHEELBASE, TRACK = 0.6, 0.4
CAR = [Placed(name, *place, steered=name[0] == "f") for name, place in CORNERS.items()]


def right_of(left: float) -> float:
    """The right wheel's angle for the left one's: cot(right) - cot(left) = track / wheelbase."""
    return float(np.arctan2(np.sin(left), np.cos(left) + TRACK / WHEELBASE * np.sin(left)))


def car_geometry(q: Array) -> Array:
    """The rate of cot(right) - cot(left), times -sin(left)^2 sin(right)^2."""
    row = np.zeros((1, len(q)))
    row[0, 3:5] = np.sin(q[4]) ** 2, -(np.sin(q[3]) ** 2)
    return row


def test_both_steered_wheels_of_a_car_roll_about_one_point(tmp_path: Path, rng: np.random.Generator) -> None:
    """All six joints have motors; one angle of steering is left, and the body moves as a bicycle does."""
    found = robot_machine(tmp_path, written(CAR), wheels={name: name for name in CORNERS})
    oracle = Oracle(CAR, car_geometry)
    names = list(found.description.state_names)
    assert names[-2:] == ["V", "fl_steer_dot"]
    assert "fr_steering" in found.description.constraints
    for left in (0.4, -0.7, 0.05):
        q = rng.normal(size=len(oracle.names))
        q[3:5] = left, right_of(left)
        V = rng.normal()
        compare(found, oracle, q, {"V": V, "fl_steer_dot": rng.normal()}, rng)
        x = np.zeros(len(names) + 1)
        x[[names.index(name) for name in ("fl_steer", "fr_steer", "V")]] = left, right_of(left), V
        rates = dict(zip(names, found.derivatives(0.0, x, np.zeros(6)), strict=False))
        middle = 1 / (1 / np.tan(left) + TRACK / 2 / WHEELBASE)  # the tangent of a bicycle's angle
        assert rates["psi"] == pytest.approx(V * middle / WHEELBASE, rel=1e-12)
    straight = np.zeros(len(names) + 1)
    assert found.fault(0.0, straight) is None
    assert np.isfinite(found.derivatives(0.0, straight, np.ones(6))).all()


@pytest.mark.parametrize(("up", "sign"), [("0 0 1", 1), ("0 0 -1", -1)])
def test_the_axles_of_a_car_meet_whichever_way_its_steering_counts(tmp_path: Path, up: str, sign: int) -> None:
    (tmp_path / "car.urdf").write_text(written(CAR, up))
    found = model_of(tmp_path, "car.urdf", wheels={name: name for name in CORNERS})
    gap = next(each.finite for each in found.constraints if each.quantity.name == "fr_steering")
    q = {each.name: each for each in found.coordinates}
    for left in (0.4, -0.7):
        assert abs(gap.subs({q["fl_steer"]: sign * left, q["fr_steer"]: sign * right_of(left)})) < 1e-12
        assert abs(gap.subs({q["fl_steer"]: sign * left, q["fr_steer"]: sign * left})) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("up", ["0 0 1", "0 0 -1"])
def test_four_wheels_that_steer_and_drive_turn_about_any_point(
    tmp_path: Path, up: str, rng: np.random.Generator
) -> None:
    """Two angles of steering are free, the others follow; the speeds of wheels are those about the point."""
    wheels, sign = [Placed(name, *place, steered=True) for name, place in CORNERS.items()], 1 if up == "0 0 1" else -1
    found = robot_machine(tmp_path, written(wheels, up), wheels={name: name for name in CORNERS})
    names = list(found.description.state_names)
    assert names[-3:] == ["fl_dot", "fl_steer_dot", "rr_steer_dot"]
    for centre in (np.array([0.1, 0.9]), np.array([-0.5, -1.3])):
        arms = {name: np.array(place) - centre for name, place in CORNERS.items()}
        x = np.zeros(len(names) + 1)
        for name, (a, b) in arms.items():
            x[names.index(f"{name}_steer")] = sign * np.arctan2(a, -b) if centre[1] > 0 else sign * np.arctan2(-a, b)
        x[names.index("fl_dot")] = 2.0
        rates = dict(zip(names, found.derivatives(0.0, x, np.zeros(found.n_inputs)), strict=False))
        speeds = {name: np.linalg.norm(arm) / np.linalg.norm(arms["fl"]) * 2.0 for name, arm in arms.items()}
        assert_allclose([rates[name] for name in speeds], list(speeds.values()), rtol=1e-12)
        turn = 2.0 * R / np.linalg.norm(arms["fl"]) * np.sign(centre[1])
        assert_allclose([rates["psi"], rates["x"], rates["y"]], [turn, turn * centre[1], -turn * centre[0]], rtol=1e-11)
    assert found.fault(0.0, np.zeros(len(names) + 1)) is None


def test_two_steered_wheels_have_a_dead_point_where_their_axles_are_one_line(tmp_path: Path) -> None:
    wheels = [Placed("front", 0.3, 0.0, steered=True), Placed("rear", -0.3, 0.0, steered=True)]
    found = robot_machine(tmp_path, written(wheels), wheels={"front": "front", "rear": "rear"})
    names = list(found.description.state_names)
    assert names[-3:] == ["front_dot", "front_steer_dot", "rear_steer_dot"]
    x = np.zeros(len(names) + 1)
    x[[names.index(f"{each}_steer") for each in ("front", "rear")]] = 0.3, 0.3  # to the side, without a turn
    x[names.index("front_dot")] = 2.0
    rates = dict(zip(names, found.derivatives(0.0, x, np.zeros(4)), strict=False))
    assert_allclose([rates["x"], rates["y"], rates["psi"]], [0.2 * np.cos(0.3), 0.2 * np.sin(0.3), 0.0], atol=1e-14)
    x[[names.index(f"{each}_steer") for each in ("front", "rear")]] = np.pi / 2 - 0.01
    assert "dead point" in str(found.fault(0.0, x))


def test_wheels_beside_one_another_on_a_steered_axle_roll_as_that_axle_turns(tmp_path: Path) -> None:
    twins = [Placed("rl", -0.3, 0.2), Placed("rr", -0.3, -0.2), Placed("fl", 0.3, 0.0, steered=True)]
    beside = link("fr_link", 1.0, (ACROSS, SPIN, ACROSS), shape=f'sphere radius="{R}"')
    text = written(twins).replace(
        "</robot>", f"{beside}{joint('fr', 'fl_fork', 'fr_link', '0 -0.15 0', '0 1 0')}</robot>"
    )
    (tmp_path / "wagon.urdf").write_text(text)
    wagon = model_of(tmp_path, "wagon.urdf", wheels={name: name for name in ("rl", "rr", "fl", "fr")})
    assert [each.name for each in wagon.independent] == ["V", "fl_steer_dot"]
    (tmp_path / "one.urdf").write_text(written(twins[2:]))
    one = model_of(tmp_path, "one.urdf", wheels={"fl": "fl"})
    assert [each.name for each in one.independent] == ["V", "Omega", "fl_steer_dot"]


def car_with(relation: str) -> str:
    """The car of the example, its linkage another one."""
    text = (EXAMPLES / "parking" / "car.xml").read_text("utf-8")
    return text.replace('polycoef="0 1.004 -0.5742 0.2677 0.02761"', f'polycoef="{relation}"')


CAR_WHEELS = {name: name for name in ("rear_left", "rear_right", "front_left", "front_right")}


def test_a_linkage_that_lets_wheels_roll_is_replaced_and_one_that_does_not_is_refused(tmp_path: Path) -> None:
    """Its refusal states the coefficients of one that does."""
    found = model_of(EXAMPLES / "parking", "car.xml", wheels=CAR_WHEELS)
    assert "linkage: left out, the wheels steer alike to 0.0015 rad" in found.notes
    (tmp_path / "car.xml").write_text(car_with("0 1 0 0 0"))
    with pytest.raises(ServonodeError) as caught:
        model_of(tmp_path, "car.xml", wheels=CAR_WHEELS)
    said = str(caught.value)
    assert "with left_steer at 0.6 rad linkage puts right_steer at 0.6 rad, and only at 0.456 rad its wheel" in said
    assert said.endswith("or name its wheel in casters")
    (tmp_path / "car.xml").write_text(car_with(said.split('polycoef="')[1].split('"')[0]))
    found = model_of(tmp_path, "car.xml", wheels=CAR_WHEELS)
    assert any("linkage: left out" in each for each in found.notes)


@pytest.mark.parametrize(
    ("follower", "leader", "remedy"),
    [
        ("fr_steer", "fl_steer", "; remove the <mimic>, or name its wheel in casters"),
        (
            "rl",
            "rr",
            "couples rl to rr, which turn at different speeds in a curve; remove it, or put one of the joints",
        ),
    ],
)
def test_a_mimic_that_makes_wheels_slip_is_refused(tmp_path: Path, follower: str, leader: str, remedy: str) -> None:
    head = f'<joint name="{follower}" type="continuous">'
    text = written(CAR).replace(head, f'{head}<mimic joint="{leader}"/>')
    with pytest.raises(ServonodeError) as caught:
        robot_machine(tmp_path, text, wheels={name: name for name in CORNERS})
    assert remedy in str(caught.value)


def test_rollers_that_are_bodies_are_part_of_their_wheel(tmp_path: Path) -> None:
    stated: dict[str, Any] = {"wheels": {f"{a}_{b}": f"{a}_{b}" for a in ("front", "rear") for b in ("left", "right")}}
    signs = {"front_left": 1, "front_right": -1, "rear_left": -1, "rear_right": 1}
    stated |= {"radius": 0.1, "rollers": {name: sign * np.pi / 4 for name, sign in signs.items()}}
    found = model_of(EXAMPLES / "mecanum", "mecanum.xml", **stated)
    assert 'joint "front_left": its wheel carries 12 rollers, whose mass stays' in found.notes
    assert len(found.coordinates) == 7
    assert_allclose([each.mass.quantity.default for each in found.tree.links], [15, *[0.4 + 12 * 0.02] * 4])
    assert found.tree.frames == ()
    assert [each.name for each in found.parameters if each.name.startswith("rear_left_hub")] == [
        f"rear_left_hub_{word}" for word in ("inertia_xx", "inertia_yy", "inertia_zz", "mass")
    ]
    del stated["rollers"]["rear_left"]
    with pytest.raises(ServonodeError, match="rear_left = 'rear_left' carries other bodies by joints; a wheel carries"):
        model_of(EXAMPLES / "mecanum", "mecanum.xml", **stated)
