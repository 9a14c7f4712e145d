"""Kinematic trees against energies written by hand, bodies in velocities, and MuJoCo."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose
from sympy import Matrix, cos, sin

from servonode.mechanics import (
    Model,
    ModelError,
    ball,
    body,
    constraint,
    coordinate,
    frame,
    hinge,
    input_,
    link,
    output,
    parameter,
    slide,
    together,
    tree,
    vector,
    velocity,
)
from servonode.mechanics.changes import Changes, changed
from servonode.mechanics.derive import derive
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.model_checks import at_generic_states
from servonode.mechanics.straight_line import along_matrix
from servonode.mechanics.symbols import time
from servonode.mechanics.trees import Tree
from tests.helpers.extras import NO_MUJOCO

I1 = np.array([[0.05, 0.004, -0.003], [0.004, 0.06, 0.002], [-0.003, 0.002, 0.04]])
Y, Z = (0, 1, 0), (0, 0, 1)


def angles(n: int) -> list[Any]:
    return [coordinate(f"q{i}", f"angle {i}", "rad") for i in range(n)]


M1, L1 = parameter("m", "mass", "kg", default=1.3), parameter("l", "length", "m", default=0.7)


def double_pendulum_tree(**more: Any) -> Model:
    q = angles(2)
    rods = [
        link("lower", "upper", position=(0, 0, -L1), joints=[hinge(q[1], Y)], mass=0.8, centre=(0.1, 0, -0.4)),
        link("upper", joints=[hinge(q[0], Y, armature=0.02)], mass=M1, centre=(0, 0, -L1 / 2), inertia=I1.tolist()),
    ]
    return Model(name="tree", description="two rods", parameters=(M1, L1), tree=tree(rods), **more)


def double_pendulum_by_hand(**more: Any) -> Model:
    a, b = angles(2)
    middle = Matrix([-sin(a), -cos(a)]) * L1 / 2
    end = (
        Matrix([-sin(a), -cos(a)]) * L1
        + Matrix([cos(a + b), -sin(a + b)]) * 0.1
        - Matrix([sin(a + b), cos(a + b)]) * 0.4
    )
    moved = {a: a.rate, b: b.rate, L1: L1.rate}
    v1, v2 = (along_matrix(place, moved) for place in (middle, end))
    kinetic = M1 * v1.dot(v1) / 2 + 0.8 * v2.dot(v2) / 2 + I1[1, 1] * a.rate**2 / 2 + 0.02 * a.rate**2 / 2
    potential = 9.81 * (M1 * middle[1] + 0.8 * end[1])
    stated: dict[str, Any] = {"coordinates": (a, b), "parameters": (M1, L1)}
    energies = {"kinetic": kinetic + more.pop("kinetic", 0), "potential": potential + more.pop("potential", 0)}
    return Model(name="hand", description="two rods", **stated, **energies, **more)


def assert_same_equations(ours: Model, theirs: Model, full: bool = True) -> None:
    """The same matrices, energies and power at random states, velocities in any order."""
    left, right = derive(ours), derive(theirs)
    order = [[v.name for v in right.model.velocities].index(v.name) for v in left.model.velocities]
    found = [left.M_r, left.h_r, left.B_r, Matrix([left.kinetic, left.power])]
    wanted = [right.M_r.extract(order, order), right.h_r[order, :], right.B_r[order, :]]
    wanted.append(Matrix([right.kinetic, right.power]))
    if full:
        found += [left.M, left.h, left.A, left.gamma]
        wanted += [right.M, right.h, right.A, right.gamma]
    names = {symbol.name: symbol for symbol in ours.symbols}
    rename = {symbol: names[symbol.name] for symbol in theirs.symbols} | {q.rate: q.rate for q in ours.coordinates}
    moving = [*ours.state, *ours.inputs, *(q.rate for q in ours.coordinates), *(v.rate for v in ours.velocities), time]
    rng = np.random.default_rng(0)
    states = dict(zip(moving, rng.uniform(-2, 2, (len(moving), 20)), strict=True))
    states |= {p: rng.uniform(0.5, 1.5, 20) for p in ours.parameters}
    for joint in ours.tree.balls if ours.tree else ():
        states |= dict(zip(joint.coordinates, _unit([states[q] for q in joint.coordinates]), strict=True))
    for each, other in zip(found, wanted, strict=True):
        assert_allclose(at_states(list(each), states), at_states(list(other.xreplace(rename)), states), atol=2e-12)
    potentials = at_states([left.potential, right.potential.xreplace(rename)], states)
    assert np.ptp(potentials[:, 0] - potentials[:, 1]) < 1e-12


def tree_of(model: Model) -> Tree:
    assert model.tree is not None
    return model.tree


def _unit(quaternion: Any) -> Any:
    return np.array(quaternion) / np.linalg.norm(quaternion, axis=0)


def test_a_tree_has_the_equations_of_its_energies_written_by_hand() -> None:
    assert_same_equations(double_pendulum_tree(), double_pendulum_by_hand())


def test_energies_forces_and_constraints_beside_the_tree_add_to_it() -> None:
    def beside() -> dict[str, Any]:
        a, b = angles(2)
        u, push = input_("u", "torque", "N m"), 0.3 * sin(time)
        more = {"kinetic": 0.1 * (a.rate - b.rate) ** 2, "potential": 3 * sin(b) ** 2, "inputs": {u: a.rate - b.rate}}
        return more | {"dissipation": 0.2 * b.rate**2 * cos(a) ** 2, "forces": {push: b.rate}}

    assert_same_equations(double_pendulum_tree(**beside()), double_pendulum_by_hand(**beside()))


def test_closed_loops_and_moving_constraints_hold_trees() -> None:
    def loop(a: Any, b: Any) -> dict[str, Any]:
        held = constraint("N", "force", sin(a) + 0.5 * sin(a + b) - 0.2 * cos(time), "N")
        return {"constraints": [held], "independent": [a]}

    assert_same_equations(double_pendulum_tree(**loop(*angles(2))), double_pendulum_by_hand(**loop(*angles(2))))


@pytest.mark.parametrize("name", ["l", "m"])
def test_parameters_of_a_tree_may_be_functions_of_time(name: str) -> None:
    changes = Changes(varying={name: "1 + 0.3*sin(2*t)"})
    assert_same_equations(changed(double_pendulum_tree(), changes), changed(double_pendulum_by_hand(), changes))


def test_a_rotation_and_a_slide_whose_place_changes_with_time_move_the_links() -> None:
    tilt, s = parameter("tilt", "angle", "rad", default=0.3), coordinate("s", "way", "m")
    turn = Matrix([[cos(tilt), 0, sin(tilt)], [0, 1, 0], [-sin(tilt), 0, cos(tilt)]])
    rail = link("cart", position=(tilt, 0, 0), rotation=turn, joints=[slide(s, (1, 0, 0))], mass=M1, inertia=I1)
    ours = Model(name="tree", description="", parameters=(M1, tilt), tree=tree([rail]))
    stated = parameter("tilt", "angle", "rad", default=0.3)
    at = Matrix([stated + s * cos(stated), -s * sin(stated)])
    v = at.diff(s) * s.rate + at.diff(stated) * stated.rate
    kinetic = M1 * v.dot(v) / 2 + I1[1, 1] * stated.rate**2 / 2
    theirs = Model(name="hand", description="", coordinates=(s,), parameters=(M1, stated), kinetic=kinetic,
                   potential=9.81 * M1 * at[1])  # fmt: skip
    changes = Changes(varying={"tilt": "0.5*sin(2*t)"})
    assert_same_equations(changed(ours, changes), changed(theirs, changes))


def floating(**more: Any) -> tuple[Model, Tree]:
    """A free body with a wheel on an oblique axis."""
    x, y, z, q = (coordinate(name, name) for name in ("x", "y", "z", "q0"))
    n, w = vector(coordinate, "n", "orientation", start=(1, 0, 0, 0)), vector(velocity, "w", "spin", "rad/s")
    free = [slide(x, (1, 0, 0)), slide(y, (0, 1, 0)), slide(z, (0, 0, 1)), ball(n, w)]
    links = [
        link("trunk", joints=free, mass=M1, centre=(0.1, -0.2, 0.05), inertia=I1),
        link("wheel", "trunk", position=(0.3, 0.1, L1), joints=[hinge(q, (1, 2, -1))], mass=0.4, inertia=I1 / 3),
    ]
    grown = tree(links, frames=[frame("hub", "wheel"), frame("middle", "trunk", (0.1, -0.2, 0.05))])
    return Model(name="floating", description="", parameters=(M1, L1), tree=grown, **more), grown


@pytest.mark.slow
def test_free_joints_and_balls_move_as_bodies_in_velocities() -> None:
    ours, _ = floating()
    x, y, z, a, b, c, d, q = ours.coordinates
    n, w = Matrix([b, c, d]), ours["w"]
    skew = Matrix([[0, -d, c], [d, 0, -b], [-c, b, 0]])
    R = (sympy.eye(3) * (a**2 - n.dot(n)) + 2 * n * n.T + 2 * a * skew) / (a**2 + n.dot(n))
    axis = Matrix([1, 2, -1]) / sympy.sqrt(6)
    across = Matrix([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    turned = R * (sympy.eye(3) + sin(q) * across + (1 - cos(q)) * across**2)
    middle, hub, speed = Matrix([0.1, -0.2, 0.05]), Matrix([0.3, 0.1, L1]), Matrix([x.rate, y.rate, z.rate])
    bodies = [
        body("trunk", mass=M1, velocity=speed + R * w.cross(middle), inertia=R * Matrix(I1) * R.T,
             angular_velocity=R * w),
        body("wheel", mass=0.4, velocity=speed + R * w.cross(hub), inertia=turned * Matrix(I1 / 3) * turned.T,
             angular_velocity=R * (w + axis * q.rate)),
    ]  # fmt: skip
    potential = 9.81 * (M1 * (z + (R * middle)[2]) + 0.4 * (z + (R * hub)[2]))
    theirs = Model(name="bodies", description="", coordinates=ours.coordinates, kinematics=ours.kinematics,
                   velocities=ours.velocities, parameters=(M1, L1), bodies=bodies, potential=potential,
                   identities=ours.identities)  # fmt: skip
    assert_same_equations(ours, theirs, full=False)


KINDS: list[list[str]] = [["free"], ["hinge"], ["slide", "hinge"], ["ball"], [], ["hinge", "hinge", "slide"]]


def random_tree(mujoco: Any, seed: int, n: int = 7) -> tuple[Any, Model]:
    """A tree of joints of all kinds, as MuJoCo's model and as ours."""
    rng, spec, links, known = np.random.default_rng(seed), mujoco.MjSpec(), [], [""]
    bodies = {"": spec.worldbody}
    for i in range(n):
        name, parent = f"b{i}", known[0 if i == 0 else rng.integers(len(known))]
        kinds = KINDS[i % 5 + 1 if i else 2 * (seed % 2)]
        place, centre = rng.uniform(-1, 1, 3), rng.uniform(-0.2, 0.2, 3)
        quat = np.array([1.0, 0, 0, 0]) if "free" in kinds else _unit(rng.normal(size=4))
        place = np.zeros(3) if "free" in kinds else place
        made = bodies[parent].add_body(name=name, pos=place, quat=quat)
        mass, axes = rng.uniform(0.5, 2), _unit(rng.normal(size=4))
        principal = rng.uniform(0.1, 0.2, 3)
        made.mass, made.ipos, made.iquat, made.inertia, made.explicitinertial = mass, centre, axes, principal, True
        R, joints = np.zeros(9), []
        mujoco.mju_quat2Mat(R, axes)
        for k, kind in enumerate(kinds):
            axis, armature = _unit(rng.normal(size=3)), 0.0 if kind == "free" else rng.uniform(0, 0.1)
            made.add_joint(
                name=f"j{i}{k}", type=getattr(mujoco.mjtJoint, f"mjJNT_{kind.upper()}"), axis=axis, armature=armature
            )
            joints += _joints(f"j{i}{k}", kind, axis.tolist(), armature)
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, quat)
        inertia = R.reshape(3, 3) @ np.diag(principal) @ R.reshape(3, 3).T
        links.append(
            link(
                name,
                parent,
                position=place,
                rotation=turn.reshape(3, 3),
                joints=joints,
                mass=mass,
                centre=centre,
                inertia=inertia,
            )
        )
        bodies[name] = made
        known.append(name)
    compiled = spec.compile()  # which sorts bodies by depth
    links.sort(key=lambda each: compiled.body(each.name).id)
    return compiled, Model(name="random", description="", tree=tree(links))


def _joints(name: str, kind: str, axis: Any, armature: float) -> list[Any]:
    if kind in ("hinge", "slide"):
        return [(hinge if kind == "hinge" else slide)(coordinate(name, name), axis, armature)]
    n, w = vector(coordinate, f"{name}n", "orientation", start=(1, 0, 0, 0)), vector(velocity, f"{name}w", "spin")
    free = [
        slide(coordinate(f"{name}{word}", word), unit) for word, unit in zip("xyz", np.eye(3).tolist(), strict=True)
    ]
    return [*(free if kind == "free" else ()), ball(n, w, armature)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_trees_are_those_of_MuJoCo(seed: int) -> None:
    mujoco: Any = pytest.importorskip("mujoco", reason=NO_MUJOCO)
    theirs, ours = random_tree(mujoco, seed)
    derived, data, rng = derive(ours), mujoco.MjData(theirs), np.random.default_rng(seed)
    grown = tree_of(ours)
    motions = [symbol for joint in grown.joints for symbol in joint.motions]
    order = [[v.name for v in ours.velocities].index(symbol.name) for symbol in motions]
    located = grown["b6"]
    seen = [
        *located.position,
        *located.rotation,
        *located.velocity,
        *located.angular_velocity,
        *grown.centre_of_mass,
    ]
    for _ in range(5):
        data.qpos[:], data.qvel[:] = rng.uniform(-2, 2, theirs.nq), rng.uniform(-2, 2, theirs.nv)
        mujoco.mj_normalizeQuat(theirs, data.qpos)
        mujoco.mj_forward(theirs, data)
        states = dict(zip(grown.rates, data.qpos[:, None], strict=True)) | dict(
            zip(motions, data.qvel[:, None], strict=True)
        )
        states |= dict(zip([ours.velocities[i] for i in order], data.qvel[:, None], strict=True))
        n, M, J = theirs.nv, np.zeros((theirs.nv, theirs.nv)), np.zeros((2, 3, theirs.nv))
        mujoco.mj_fullM(theirs, data, M)
        found = at_states([*derived.M_r, *derived.h_r, derived.kinetic, derived.potential, *seen], states)[0]
        assert_allclose(found[: n * n].reshape(n, n)[np.ix_(order, order)], M, atol=1e-10)
        assert_allclose(found[n * n :][:n][order], data.qfrc_bias, atol=1e-10)
        mujoco.mj_energyPos(theirs, data)
        mujoco.mj_energyVel(theirs, data)
        mujoco.mj_jacBody(theirs, data, *J, theirs.body("b6").id)
        moved = [*data.body("b6").xpos, *data.body("b6").xmat, *(J[0] @ data.qvel), *(J[1] @ data.qvel)]
        wanted = [data.energy[1], data.energy[0], *moved, *data.subtree_com[0]]
        assert_allclose(found[n * n + n :], wanted, atol=1e-10)


def test_the_energy_of_a_floating_robot_is_the_work_and_its_angular_momentum_converges(small: ModuleType) -> None:
    machine = small.machine(spinning)
    x = machine.state({"n_0": 1.0, "w_0": 2.0, "w_1": -1.0, "w_2": 3.0, "q0_dot": -4.0, "x_dot": 0.3})
    started, errors = machine.outputs(0.0, x, np.zeros(1)), []
    for steps in (50, 100):
        end = x.copy()
        assert machine.advancer("rk4")(0, steps, 10**9 // steps, end, np.array([0.2]), machine.c)
        assert machine.energy(1.0, end) - machine.energy(0.0, x) == pytest.approx(end[-1], abs=1e-5)
        found = machine.outputs(1.0, end, np.zeros(1))
        errors.append(max(abs(found[name] - started[name]) for name in started))
    assert errors[0] / errors[1] > 12  # the internal torque changes no momentum: fourth order
    assert errors[1] < 1e-5


def spinning() -> Model:
    model, grown = floating()
    middle, hub, c = grown["middle"], grown["hub"], grown.centre_of_mass
    momentum = sympy.zeros(3, 1)
    for mass, inertia, located in ((M1, I1, middle), (0.4, I1 / 3, hub)):
        turned = located.rotation * Matrix(inertia.tolist()) * located.rotation.T
        momentum += turned * located.angular_velocity + mass * (located.position - c).cross(located.velocity)
    outputs = [output(f"L{i}", "angular momentum", each) for i, each in enumerate(momentum)]
    u, q = input_("u", "torque of the wheel", "N m"), model["q0"]
    still = tree(grown.links, gravity=(0, 0, 0), frames=grown.frames)
    return Model(name="spinning", description="", parameters=(M1, L1), tree=still, inputs={u: q.rate}, outputs=outputs)


def test_links_without_mass_cost_nothing() -> None:
    q = angles(2)
    both = tree([link("rod", joints=[hinge(q[0], Y), hinge(q[1], Z)], mass=1, centre=(0, 0, -1), inertia=I1)])
    chain = [link("fork", joints=[hinge(q[0], Y)]),
             link("rod", "fork", joints=[hinge(q[1], Z)], mass=1, centre=(0, 0, -1), inertia=I1)]  # fmt: skip
    first, second = (Model(name="m", description="", tree=each) for each in (both, tree(chain)))
    assert derive(first).M_r == derive(second).M_r
    assert derive(first).h_r == derive(second).h_r


def test_trees_of_several_machines_are_joined() -> None:
    pair = together("pair", "", left=double_pendulum_tree(), right=double_pendulum_tree())
    assert [each.name for each in tree_of(pair).links] == ["left_upper", "left_lower", "right_upper", "right_lower"]
    (numbers,) = at_generic_states(pair, derive(pair).M_r)[:1]
    assert numbers[0, 1] != 0
    assert not numbers[:2, 2:].any()


Refused = Callable[[], Any]
REFUSED: dict[str, tuple[Refused, str]] = {
    "unknown parent": (lambda: tree([link("a", "b")]), "link a: there is no link 'b'"),
    "circle": (lambda: tree([link("a", "b"), link("b", "a")]), "links a, b: they hang on one another in a circle"),
    "two of a name": (lambda: tree([link("a"), link("a")]), "link 'a': another link or frame has this name"),
    "frame of a link's name": (lambda: tree([link("a")], frames=[frame("a", "a")]), "frame 'a': another link or frame"),
    "frame on nothing": (lambda: tree([link("a")], frames=[frame("f", "c")]), "frame f: there is no link 'c'"),
    "joint twice": (
        lambda: (lambda joint: tree([link("a", joints=[joint]), link("b", joints=[joint])]))(hinge(angles(1)[0])),
        "link b: q0 moves link a already",
    ),
    "negative mass": (lambda: link("a", mass=-1), "link a: its mass -1 kg is negative"),
    "triangle": (lambda: link("a", inertia=np.diag([1, 1, 3])), "link a: no body has the principal inertias 1, 1, 3"),
    "negative inertia": (lambda: link("a", inertia=np.diag([1, 1, -0.5])), "none is negative"),
    "not symmetric": (lambda: link("a", inertia=[[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]), "its inertia .* not symmetric"),
    "not a rotation": (lambda: link("a", rotation=np.diag([1, 1, -1])), "link a: rotation .* is not one"),
    "no axis": (lambda: hinge(angles(1)[0], (0, 0, 0)), "axis of q0 is .*three numbers that are not all zero"),
    "two entries": (lambda: link("a", position=(0, 1)), r"link a: position is \(0, 1\); give three entries"),
    "no number": (lambda: link("a", mass=float("nan")), "link a: mass: nan has no finite real value"),
    "no link": (lambda: tree([angles(1)[0]]), "tree: q0 in links= was not made by link"),
    "no joint": (
        lambda: link("a", joints=[angles(1)[0]]),
        "link a: q0 in joints= was not made by hinge, slide or ball",
    ),
    "negative armature": (lambda: hinge(angles(1)[0], armature=-1), "armature of q0 is -1"),
    "nothing moves": (lambda: Model(name="x", description="", tree=tree([link("a")])), "machine x: nothing moves"),
    "one coordinate for four": (lambda: ball(angles(1)[0], angles(3)), r"ball: quaternion= is \[q0\]; give a vector"),
    "quaternion": (lambda: ball(angles(4), angles(3)), "ball: spin= is .*; give a vector"),
    "no such frame": (lambda: tree([link("a")])["tool"], "it has no link or frame 'tool'; it has a"),
    "foreign parameter": (
        lambda: derive(Model(name="x", description="", tree=tree([link("a", joints=[hinge(angles(1)[0])], mass=M1)]))),
        "the link a contains 'm', which the model does not list",
    ),
    "constraint and ball": (
        lambda: floating(constraints=[constraint("N", "force", coordinate("z", "z") - 1)]),
        r"the spin of a ball is not \(trunk\); state it as three hinges",
    ),
    "massless leaf": (
        lambda: derive(Model(name="x", description="", tree=tree([link("a", joints=[hinge(angles(1)[0])])]))),
        r"q0_dot \(link a\) has no inertia",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_tree_is_refused_in_one_line(case: str) -> None:
    attempt, text = REFUSED[case]
    with pytest.raises(ModelError, match=text) as found:
        attempt()
    assert "\n" not in str(found.value)
    assert str(found.value).startswith("test_tree.py line ")
