"""The controller of the exported C file: the bits of the simulation, safe action, limits, goal."""

import ctypes
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.controllers.engine.keeping import KeepNumbers
from servonode.controllers.engine.layout import CROSSED, UNSOLVED
from servonode.loop import Loop
from servonode.nodes.guard import SafeAction
from servonode.nodes.input_limiter import InputLimiter
from servonode.plants.limits import limited
from tests.helpers.c_code import WARNINGS, c_text, compiler, pointer

LIMITED = (
    "controller.delay=2", "plant.safety.limit=0.25", "plant.safety.rate_limit=4", "plant.safety.power_limit=0.15",
)  # fmt: skip
LOOPS: dict[str, tuple[str, ...]] = {  # every integrator, law and limit
    "limits": ("trailer_pursuit_lockstep", "run.duration=5", *LIMITED),
    "rate_of_one_input": (
        "trailer_pursuit_lockstep", "run.duration=1", "plant.safety.rate_limit={U1 = 0.004}", "plant.integrator=heun",
    ),
    "integrals": (
        "trailer_pursuit_lockstep", "run.duration=2", "controller.gains.integral=0.5", "controller.delay=1",
        "target.x={points = [[0.5, 2], [1.1, 2.3], [2, 2.1]]}", "plant.integrator=rk2",
    ),
    "another_machine": (
        "trailer_pursuit_lockstep", "run.duration=1", "controller.parameters.m1=5.5", "controller.gains.lambda=3",
        "controller.damping=0.01", "plant.parameters.c_w=0.003", "plant.integrator=euler",
    ),
    "least_norm": (
        "trailer_hitch_swing", "run.duration=1", "controller.settings.completion=least_norm", "plant.integrator=radau",
    ),
    "weighted": (
        "trailer_hitch_swing", "run.duration=1", "controller.settings.completion=least_norm",
        "controller.weights.U1=3.7",
    ),
    "hitch_speed": ("trailer_hitch_speed", "run.duration=1", "plant.integrator=ralston"),
    "path": ("trailer_circle", "run.duration=1"),
    "own_states": ("snowboarder_curve", "run.duration=1", "controller.delay=1", "plant.safety.rate_limit=3000"),
    "keeps": (
        "trailer_pursuit_lockstep", "run.duration=3", 'controller.keep.slow="0.05 - V"', 'controller.limits="keep"',
        "plant.safety.limit=0.01", "controller.delay=1",
    ),
    "gives_way": (
        "trailer_pursuit_lockstep", "run.duration=1", 'controller.keep.slow="0.05 - V"', "plant.safety.limit=0.03",
        'controller.keep.fast={expression="V + 0.1*t - 0.06", priority=2, tolerance=10}', 'controller.limits="keep"',
    ),
    "sphero": ("sphero_pursuit", "run.duration=1", "plant.safety.limit=5e-6", "plant.safety.rate_limit=3e-6"),
    "sphero_cascade": ("sphero_cascade", "run.duration=1", "controller.delay=1", "plant.safety.limit=1e-8"),
}  # fmt: skip
ACTS = {"limits", "rate_of_one_input", "own_states", "sphero", "sphero_cascade"}  # where a limit must have acted


def loop(name: str, *changes: str) -> ClosedLoop:
    return resolve(read_launch(name, list(changes)))


class Controller:
    """The controller of a C file and its struct, of the launch file of a closed loop."""

    def __init__(self, library: Any, a: ClosedLoop) -> None:
        text = c_text(a) + "\nextern const int size;\nconst int size = (int)sizeof(struct run_controller);\n"
        self.c, self.n_goal = library(text), a.control.law.goal_layout.states.start  # type: ignore[union-attr]
        self.kept = ctypes.create_string_buffer(b"\xff" * ctypes.c_int.in_dll(self.c, "size").value)
        self.u, self.y = np.zeros(a.machine.n_inputs), np.zeros(self.n_goal)
        self.start()

    def start(self) -> None:
        self.c.run_controller_start(self.kept)

    def goal(self, t: float) -> Array:
        if self.n_goal:
            self.c.run_goal(ctypes.c_double(t), pointer(self.y))
        return self.y

    def update(self, t: float, x: Array, y: Array) -> int:
        status: int = self.c.run_controller_update(
            self.kept, ctypes.c_double(t), pointer(x), pointer(y), pointer(self.u)
        )
        return status


def same(ours: Any, theirs: Any) -> None:
    """The same bits."""
    np.testing.assert_array_equal(np.asarray(ours).view(np.int64), np.asarray(theirs).view(np.int64))


@pytest.mark.parametrize("case", LOOPS)
def test_controller_and_plant_in_c_have_the_bits_of_the_simulation(library: Any, case: str) -> None:
    name, *changes = LOOPS[case]
    a = loop(name, *changes)
    per_period = a.launch.steps_per_period
    assert per_period is not None
    run = Loop(a).simulate(every=per_period)
    assert run.fault is None
    controller, x, applied = Controller(library, a), a.start.copy(), []
    for k in range(a.launch.steps + 1):
        t = k * a.launch.step_ns / 1e9
        if k % per_period == 0:
            same(controller.goal(t), a.goal(t)[: controller.n_goal])
            assert controller.update(t, x, controller.y) == 0
            applied.append(controller.u.copy())
        if k < a.launch.steps:
            controller.c.run_plant_step(ctypes.c_double(t), pointer(x), pointer(controller.u))
    same(np.array(applied).T.copy(), run.inputs)
    same(x, np.array([*(column[-1] for column in run.state.values()), run.work[-1]]))
    if case in ACTS:
        free = loop(name, *(each for each in changes if not each.startswith("plant.safety")))
        assert (Loop(free).simulate(every=per_period).inputs != run.inputs).any(axis=0).sum() > 10


def test_the_controller_in_c_stops_where_the_determinant_changes_its_sign(library: Any, tmp_path: Path) -> None:
    """A thrust that becomes negative, as in tests/controllers/test_extension.py."""
    machine = Path(__file__).parents[2] / "examples" / "quadrotor" / "quadrotor.py"
    file = tmp_path / "falls.toml"
    file.write_text(
        f'[run]\nduration = 2.0\n[plant]\nmachine = "{machine}:model"\nstep = 0.001\ninitial.on_program = true\n'
        '[controller]\nperiod = 0.005\nresiduals = { px = "x - X", pz = "z - Z" }\n'
        '[target]\nX = "0*t"\nZ = "-9.1*t**3/6"\n'
    )
    a = loop(str(file))
    run = Loop(a).simulate()
    assert run.fault is not None
    controller, x, status, k = Controller(library, a), a.start.copy(), 0, 0
    while not status:
        t = k * a.launch.step_ns / 1e9
        if k % 5 == 0:
            status = controller.update(t, x, controller.goal(t))
        controller.c.run_plant_step(ctypes.c_double(t), pointer(x), pointer(controller.u))
        k += 1
    assert status == CROSSED
    assert t == run.fault["t"]


def test_the_controller_in_c_stops_where_inputs_were_only_clipped_for_too_long(library: Any) -> None:
    a = loop("trailer_pursuit_lockstep", 'controller.keep.slow="0.15 - V"', "plant.safety.repeats=4")
    assert a.control is not None
    law = a.control.law.keeping({"slow": KeepNumbers(np.inf, np.inf, 0.0, 1.0)}, *a.control.law.limits)
    a = a.with_parts(control=replace(a.control, law=law))
    controller, x = Controller(library, a), a.start.copy()
    assert [controller.update(i / 100, x, controller.goal(i / 100)) for i in range(6)] == [
        0,
        0,
        0,
        0,
        UNSOLVED,
        UNSOLVED,
    ]
    head = c_text(a).split("*/")[0]
    assert "for more than 4 periods in a row the inputs were only clipped" in head
    assert "slow.tolerance  1.0" in head


def states(a: ClosedLoop, rng: np.random.Generator, n: int) -> Array:
    """Random states of the machine, with the work."""
    return a.start + rng.normal(size=(n, len(a.start)))


BAD = (np.nan, np.inf, -np.inf)
MACHINES = ("trailer_pursuit", "sphero_pursuit", "snowboarder_slalom")


@pytest.fixture(scope="module", params=MACHINES)
def limited_loop(request: pytest.FixtureRequest) -> ClosedLoop:
    """A loop with a limit that its safe action meets, and a delay."""
    return loop(request.param, "plant.safety.limit=0.02", "controller.delay=1")


def test_the_safe_action_is_that_of_the_guard(library: Any, rng: np.random.Generator, limited_loop: ClosedLoop) -> None:
    safe, c, u = SafeAction(limited_loop), library(c_text(limited_loop)), np.zeros(limited_loop.machine.n_inputs)
    assert safe.stated
    seen = set()
    for x in states(limited_loop, rng, 300):
        c.run_safe(ctypes.c_double(1.5), pointer(x), pointer(u))
        same(u, np.array(safe.inputs(1.5, x)))
        seen |= set(np.abs(u).tolist())
    assert 0.02 in seen
    assert len(seen) > 2
    for bad in (np.nan, np.inf):
        x = np.full(len(limited_loop.start), bad)
        c.run_safe(ctypes.c_double(1.5), pointer(x), pointer(u))
        assert not u.any()


def spoiled(array: Array, i: int, bad: float) -> Array:
    copy = array.copy()
    copy[i] = bad
    return copy


def test_a_state_or_goal_that_is_no_number_gives_the_safe_action_until_the_next_start(
    library: Any, limited_loop: ClosedLoop
) -> None:
    controller, safe, x = Controller(library, limited_loop), SafeAction(limited_loop), limited_loop.start.copy()
    y = controller.goal(0.0).copy()
    wrong = [(spoiled(x, i, bad), y) for i in range(limited_loop.machine.n_state) for bad in BAD]
    wrong += [(x, spoiled(y, i, bad)) for i in range(len(y)) for bad in BAD]
    for seen, goal in wrong:
        controller.start()
        assert controller.update(0.0, x, y) == 0
        assert controller.update(0.01, seen, goal) == -2, (seen, goal)
        same(controller.u, np.array(safe.inputs(0.01, seen)))
        assert controller.update(0.02, x, y) == -2  # it has stopped
        same(controller.u, np.array(safe.inputs(0.02, x)))
    controller.start()
    assert controller.update(0.03, x, y) == 0


ALL_LIMITS = {"limit": 0.3, "rate_limit": 20.0, "power_limit": 0.05}


@pytest.mark.parametrize("stated", [ALL_LIMITS, {"rate_limit": 20.0}, {"power_limit": 0.0}, {"limit": 0.0}], ids=str)
def test_the_limits_are_those_of_the_guard(library: Any, rng: np.random.Generator, stated: dict[str, float]) -> None:
    a = loop("trailer_pursuit", *(f"plant.safety.{key}={value}" for key, value in stated.items()))
    limits, c, outcomes = a.safety.limits, library(c_text(a)), Counter[int]()
    for x in states(a, rng, 500):
        asked, before = rng.normal(size=2) * rng.choice([0.01, 0.3, 2.0, 1e300]), rng.normal(size=2) * 0.2
        u, rates = asked.copy(), a.machine.input_rates(0.5, x)
        returned = c.run_limit(ctypes.c_double(0.5), pointer(x), pointer(before), pointer(u))
        expected, _ = limited(asked.tolist(), before.tolist(), 0.01, limits, ("U1", "U2"), lambda r=rates: r)
        same(u, np.array(expected))
        assert returned == int(expected != asked.tolist())
        outcomes[returned] += 1
    assert set(outcomes) == ({1} if stated == {"limit": 0.0} else {0, 1})


def test_an_input_that_is_no_number_gives_the_safe_action_never_a_full_torque(library: Any) -> None:
    a = loop("trailer_pursuit", *(f"plant.safety.{key}={value}" for key, value in ALL_LIMITS.items()))
    c, x, safe = library(c_text(a)), a.start + 0.4, np.zeros(2)
    c.run_safe(ctypes.c_double(0.0), pointer(x), pointer(safe))
    assert safe.all()
    for bad in BAD:
        for u, before in ((np.array([0.1, bad]), np.zeros(2)), (np.array([0.1, 0.1]), np.array([bad, 0.0]))):
            assert c.run_limit(ctypes.c_double(0.0), pointer(x), pointer(before), pointer(u)) == -2
            same(u, safe)


def test_a_guard_of_the_law_gives_the_safe_action_until_the_next_start(library: Any) -> None:
    a = loop("trailer_pursuit", "plant.safety.limit=0.5")
    controller, x, text = Controller(library, a), a.start + 0.2, " ".join(c_text(a).replace("\n *", " ").split())
    assert a.control is not None
    near, far = np.array([0.21, 0.0, 0.0, 0.2, 0.0, 0.0]), np.array([3.0, 0.0, 0.0, 0.2, 0.0, 0.0])
    for y, status in ((far, 0), (near, 1), (far, 1)):
        assert controller.update(0.0, x, y) == status
        answer = a.control.law.evaluate(0.0, x, y)
        assert answer.status == int(y is near)
        assert not answer.status or a.control.law.explain(answer).split(";")[0] in text
        if status:
            same(controller.u, np.array(SafeAction(a).inputs(0.0, x)))
    controller.start()
    assert controller.update(0.0, x, far) == 0


def test_after_an_arming_inputs_grow_as_the_guard_lets_them(library: Any) -> None:
    changes = ("plant.safety.limit=0.4", "plant.safety.ramp=0.3", "plant.safety.arming_limit=0.03")
    a = loop("trailer_pursuit_external", *changes, "plant.safety.arming_time=0.5", "plant.safety.rate_limit=3")
    assert a.safety.soft_start.at_first
    controller, x, reasons = Controller(library, a), a.start.copy(), set[str]()
    limiter = InputLimiter(a, a.plant(), Counter())
    assert a.control is not None
    for k in range(80):
        t = k / 100
        assert controller.update(t, x, controller.goal(t)) == 0
        answer = a.control.law.evaluate(t, x, a.goal(t))
        reasons |= set(limiter.limit(dict(zip(("U1", "U2"), answer.inputs.tolist(), strict=True)), k))
        same(controller.u, np.array(limiter.newest))
        x[:8] = x[:8] + 0.001 * k * np.sin(np.arange(8) + k)  # anything that moves
    assert reasons >= {"ramp", "limit:U1", "rate:U1"}
    assert "plant.safety" not in c_text(a).split("Not in here:")[1].split("Plant:")[0]


NOT_IN_C = [
    (("controller.delay=2", "controller.predictor=true"), "controller.predictor: the law acts on the measured"),
    (("plant.sensor.noise=0.001", "plant.sensor.delay=0.01"), "plant.sensor (noise, delay): x is the state"),
    (("plant.actuator.lag=0.01",), "plant.actuator (lag): in the plant step inputs act at once"),
    (("estimator.gate=5",), "The estimator: the law acts on the x that the caller gives"),
    ((), "plant.safety (ramp): in a simulation and in lockstep"),
]


@pytest.mark.parametrize(("changes", "says"), NOT_IN_C)
def test_what_the_launch_file_asks_for_and_c_does_not_have_stands_in_the_head(
    changes: tuple[str, ...], says: str
) -> None:
    missing = c_text(loop("trailer_pursuit", *changes)).split("Not in here:")[1].split("Plant:")[0]
    assert says in missing
    assert "Timeouts, arming, the fault ladder" in missing
    if not changes:
        assert "actuator" not in missing
        assert "predictor" not in missing


FIRMWARE = """\
#include <stdio.h>
#include "run.c"
static struct SERVONODE_CONTROLLER controller;
int main(void)
{
    static const char *const states[] = SERVONODE_STATE_NAMES, *const inputs[] = SERVONODE_INPUT_NAMES;
    static const char *const goals[] = SERVONODE_GOAL_NAMES, *const parameters[] = SERVONODE_PARAMETER_NAMES;
    static const double numbers[] = SERVONODE_PARAMETERS, limits[] = SERVONODE_LIMITS;
    double x[SERVONODE_N_X] = SERVONODE_START, y[SERVONODE_N_GOAL], u[SERVONODE_N_INPUTS], measured[SERVONODE_N_STATE];
    float packet[SERVONODE_N_STATE];
    int i, k;
    SERVONODE_CONTROLLER_START(&controller);
    for (k = 0; k < 100; k++) {
        for (i = 0; i < SERVONODE_N_STATE; i++)
            measured[i] = packet[i] = (float)x[i];
        SERVONODE_GOAL(k*SERVONODE_PERIOD_S, y);
        if (SERVONODE_CONTROLLER_UPDATE(&controller, k*SERVONODE_PERIOD_S, measured, y, u) != 0)
            return 1;
        if (SERVONODE_LIMIT(0.0, measured, u, u) != 0)
            return 2;
        for (i = 0; i < 10; i++)
            SERVONODE_PLANT_STEP(k*SERVONODE_PERIOD_S + i*SERVONODE_STEP_S, x, u);
    }
    SERVONODE_SAFE(1.0, x, u);
    printf("%s %s %s %s %s %zu %g %g %.17g\\n", SERVONODE_NAME, states[SERVONODE_N_STATE - 1],
        inputs[SERVONODE_N_INPUTS - 1], goals[0], parameters[SERVONODE_N_PARAMETERS - 1],
        sizeof numbers/sizeof numbers[0], limits[0], x[0], u[0]);
    return 0;
}
"""


@pytest.mark.parametrize(("name", "line"), [
    ("trailer_pursuit", "diff_drive_trailer theta2 U2 x a_slip 14 0.5"),
    ("sphero_pursuit", "pendulum_sphero q_3 Q_z x mu_f 12 0.5"),
])  # fmt: skip
def test_firmware_includes_any_machine_by_names_without_its_prefix(tmp_path: Path, name: str, line: str) -> None:
    (tmp_path / "run.c").write_text(c_text(loop(name, "plant.safety.limit=0.5"), name))
    (tmp_path / "main.c").write_text(FIRMWARE)
    command = [compiler(), *WARNINGS, "-O2", "main.c", "-o", "main", "-lm"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert printed.startswith(line)
    assert np.isfinite(list(map(float, printed.split()[-2:]))).all()
