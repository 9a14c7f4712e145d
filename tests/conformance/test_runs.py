"""What every packaged launch file must be: announced, accepted, and the same bits in every execution mode."""

from importlib.resources import files
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import LaunchError, packaged, read_launch
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.controllers import ServoLaw
from servonode.mechanics.description import derivative_name
from servonode.record.run import Run
from servonode.simulation import simulate as modes
from tests.conformance.cases import Expressions, MachineCase, ProgramCase
from tests.helpers.wings import FROM_OUTSIDE, launches

LAUNCHES = sorted(launches())
SHORT_S = 0.8  # plant time of a shortened run; the law acts eighty times at the usual period
WAIT_S = 120.0

# launch files that show a refusal or a fault: the words of `servonode check` that say so
REFUSED = {
    "hoop_flies": "contact lost",
    "snowboarder_too_weak": "fallen",
    "snowboarder_turns_back": "the heading has left",
    "sphero_refused": "runs away",
    "sphero_runs_over": "tilt above 75 degrees",
}
UNPREPARED = {  # by the machine itself, before there is anything to examine
    "ball_refused": "both real parts must be negative",
    "hoop_too_curved": "too narrow a valley at x = ",
}
NEVER_STARTS = {"sphero_refused": REFUSED["sphero_refused"]} | UNPREPARED
RUNNING = [each for each in LAUNCHES if each not in (*NEVER_STARTS, *FROM_OUTSIDE)]
EXAMINED = [each for each in LAUNCHES if each not in UNPREPARED]
FILES = {each: read_launch(each) for each in RUNNING}


def task(launch: LaunchFile) -> tuple[str, str | None]:
    """The machine and the program of a launch file."""
    return launch.plant.machine, launch.controller.program if launch.controller else None


def first_of_each(what: Any) -> set[str]:
    """The first launch file, by name, of each value of a function of launch files."""
    found: dict[Any, str] = {}
    for each, launch in FILES.items():
        found.setdefault(what(launch), each)
    return set(found.values())


def slow_but(fast: set[str], launches: list[str], longest: tuple[str, ...] = ()) -> list[Any]:
    """All of them, marked slow but for the fast ones; the longest are part of the soak."""
    marks = {
        each: () if each in fast else pytest.mark.soak if each in longest else pytest.mark.slow for each in launches
    }
    return [pytest.param(each, marks=mark) for each, mark in marks.items()]


CONTROLLED = [each for each in RUNNING if task(FILES[each])[1]]
SIMULATED = [each for each in CONTROLLED if FILES[each].plant.driver in ("simulated", "loopback")]
SENSOR = {"noise": 1e-6, "bias": 1e-6, "quantum": 1e-7, "delay": 0.002, "drop": 0.1}
DRIVES = {"rate_limit": 1e4, "lag": 0.001, "delay": 0.002, "quantum": 1e-6, "dead_zone": 2e-6}
LONGEST = ("trailer_pursuit_mujoco", "sphero_pursuit_mujoco", "trailer_estimated")  # 20 s each
A_TASK = first_of_each(task)  # one launch file for each program of each machine
A_MACHINE = first_of_each(lambda launch: launch.plant.machine)


def shortened(name: str) -> dict[str, Any]:
    """Overrides for a short run in lockstep that is not a whole number of control periods."""
    launch = read_launch(name)
    whole, step = launch.duration_ns / 1e9, 0.0 if launch.plant.step == "auto" else launch.step_ns / 1e9
    return {"run__duration": min(SHORT_S + 3 * step, whole), "run__mode": "lockstep"}


def table(run: Run) -> dict[str, Any]:
    """All that a run records."""
    return {"k": run.k, "work": run.work, **run.columns}


# what a launch file says


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_file_begins_with_what_to_watch_for(name: str) -> None:
    text = (files("servonode.launch") / f"{name}.toml").read_text("utf-8")
    first = text.splitlines()[0]
    assert first.startswith("# Watch for: ")
    assert first.endswith(".")
    assert len(first) <= 120
    assert packaged()[name] == first.removeprefix("# ")


@pytest.mark.parametrize("name", slow_but(A_MACHINE, EXAMINED, LONGEST))
def test_check_passes_except_where_a_refusal_is_expected(name: str) -> None:
    report = servonode.check(name)
    refusals = "; ".join(each.text for each in report.findings if each.level == "refuse")
    assert report.verdict == ("no" if name in REFUSED else "yes"), refusals
    assert REFUSED.get(name, "") in refusals
    assert all(len(each.text.split()) > 2 for each in report.findings)


@pytest.mark.parametrize("name", sorted(NEVER_STARTS))
def test_a_launch_file_that_shows_a_refusal_does_not_start(name: str) -> None:
    for refuse in (servonode.load, servonode.check) if name in UNPREPARED else (servonode.load,):
        with pytest.raises(LaunchError, match=NEVER_STARTS[name]):
            refuse(name)


# the same bits


def both(name: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Run:
    """The run of the nodes, after comparing it with the fused loop's, bit for bit."""
    nodes = servonode.simulate(name, loop="nodes", every=1, **options)

    def refuse(*_: Any) -> None:
        raise AssertionError("the fused loop gave up")

    with monkeypatch.context() as patched:
        if modes.can_fuse(nodes.closed_loop) and not nodes.fault:  # a run with a fault is given to the nodes
            patched.setattr(modes, "simulate_nodes", refuse)
        fused = servonode.simulate(name, loop="fused", every=1, **options)
    ours, theirs = table(fused), table(nodes)
    assert list(ours) == list(theirs)
    for column, values in ours.items():
        np.testing.assert_array_equal(values.view(np.int64), theirs[column].view(np.int64), column)
    assert (fused.steps, fused.residual_max, fused.limits) == (nodes.steps, nodes.residual_max, nodes.limits)
    assert len(fused.t) == fused.steps + 1
    return nodes


@pytest.mark.parametrize("name", slow_but(A_TASK, RUNNING))
def test_the_fused_loop_ends_in_the_bits_of_the_nodes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = both(name, monkeypatch, **shortened(name))
    assert not run.fault or name in REFUSED


@pytest.mark.parametrize("name", slow_but(A_MACHINE, CONTROLLED))
def test_so_it_does_where_drives_saturate_and_commands_are_late(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = shortened(name)
    free = servonode.simulate(name, every=1, **options)
    limits = {each: 0.7 * float(np.max(np.abs(values))) + 1e-9 for each, values in free.input.items()}
    limited = both(name, monkeypatch, **options, plant__actuator__limit=limits, controller__delay=1)
    assert not limited.fault or name in REFUSED
    peaks = {each: float(np.max(np.abs(values))) for each, values in limited.input.items()}
    assert all(peak <= limits[each] for each, peak in peaks.items())
    assert any(peak == limits[each] for each, peak in peaks.items())


@pytest.mark.parametrize("name", slow_but(A_MACHINE, SIMULATED))
def test_so_it_does_where_drives_and_sensors_err(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    err = {"plant__sensor": SENSOR, "plant__safety__power_limit": 1}
    if FILES[name].plant.command == "effort":
        err["plant__actuator"] = DRIVES
    both(name, monkeypatch, **shortened(name), **err)


@pytest.mark.parametrize("name", slow_but(A_TASK, CONTROLLED))
def test_the_settings_of_the_file_reach_the_compiled_law(name: str) -> None:
    loop, launch = servonode.load(name), read_launch(name)
    control, (machine, program) = loop.closed_loop.control, task(launch)
    assert control is not None
    assert program is not None
    law, x, y = control.law, loop.closed_loop.start, loop.closed_loop.goal(0.0)
    settings = {each: value for each, value in launch.controller.settings.items() if each in law.parameters}  # type: ignore[union-attr]
    assert {each: law.parameters[each] for each in settings} == settings
    plant = MachineCase(machine, tuple(loop.closed_loop.source.settings.items()))
    expressions = Expressions(ProgramCase(program, plant, tuple(control.options.items())))
    answer = law.evaluate(0.0, x, y)
    named = dict(zip(law.machine.description.state_names, x, strict=False))
    named |= law.machine.parameters | law.parameters | goal_by_name(law, y)
    for each, found in zip(expressions.program.residuals, answer.residuals, strict=True):
        expected = expressions.value(each.expression, named)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12), each.quantity.name


def goal_by_name(law: ServoLaw, y: Any) -> dict[str, float]:
    """The entries of y by their symbols' names."""
    of = law.description
    names = [derivative_name(name, n) for name in of.targets for n in range(of.target_order + 1)]
    names += [derivative_name(each.name, n) for each in of.signals for n in range(of.signal_order + 1)]
    return dict(zip([*names, *(each.name for each in of.states)], map(float, y), strict=False))
