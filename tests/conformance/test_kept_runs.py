"""What a law keeps runs alike everywhere: the compiled loop and the nodes; statuses, columns, reports, faults."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.controllers.engine.keeping import KeepNumbers
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.run import Run
from servonode.simulation.fused_loop import Ended, fused_loop, rows_of
from servonode.simulation.simulate import simulate_fused, simulate_nodes

EVERY = 10
SLOW = 'controller.keep.slow="0.05 - V"'
TIGHT = (SLOW, 'controller.limits="keep"', "plant.safety.limit=0.01")
CONFLICT = (
    SLOW, 'controller.keep.fast={expression="V + 0.3 - 0.2*t", priority=2, tolerance=10}',
    'controller.limits="keep"', "plant.safety.limit=0.03",
)  # fmt: skip
CASES: dict[str, tuple[str, ...]] = {
    "acts": (SLOW,),
    "limits": TIGHT,
    "delay": (*TIGHT, "controller.delay=2"),
    "predictor": (*TIGHT, "controller.delay=2", "controller.predictor=true"),
    "imperfect": (*TIGHT, "plant.sensor.noise=1e-4", "plant.actuator.lag=0.01"),
    "gives way": CONFLICT,
    "is a fault": (*CONFLICT, 'controller.conflict="fault"'),
    "violated": ('controller.keep.slow="0.05 - V - 0.02*t"', "plant.safety.limit=0.001"),
}
FAULTS = {"is a fault": ("law", 1.66), "violated": ("keep_slow", 2.55)}
UNSOLVED = {"": 3, "plant.safety.repeats=0": 0, "plant.safety.repeats=7": 7}


def loop(*changes: str) -> ClosedLoop:
    return resolve(read_launch("trailer_pursuit_lockstep", ["run.duration=3", *filter(None, changes)]))


def unsolved(*changes: str) -> ClosedLoop:
    """A loop whose solver finds nothing: a row is not finite."""
    a = loop('controller.keep.slow="0.15 - V"', *changes)
    assert a.control is not None
    law = a.control.law.keeping({"slow": KeepNumbers(np.inf, np.inf, 0.0, 1.0)}, *a.control.law.limits)
    return a.with_parts(control=replace(a.control, law=law))


def compiled(a: ClosedLoop) -> Ended:
    """How the compiled loop alone ends."""
    assert a.control is not None
    rows = np.zeros((rows_of(a.launch.steps, EVERY), PlantRecordLayout.of(a.machine.description).computed.stop))
    return fused_loop(a, EVERY, rows, np.zeros((a.launch.steps, a.control.law.record_layout.size)))


def both(a: ClosedLoop) -> Run:
    """The run, of which loop and nodes have the same bits."""
    ours, nodes = simulate_fused(a, EVERY), simulate_nodes(a, EVERY)
    assert ours.columns.keys() == nodes.columns.keys()
    for name, column in ours.columns.items():
        assert_array_equal(column, nodes.columns[name], name)
    assert (ours.keeps, ours.clipped, ours.fault) == (nodes.keeps, nodes.clipped, nodes.fault)
    return ours


def told(found: Any) -> tuple[str, float]:
    return (found["name"], found["t"]) if isinstance(found, dict) else (found.name, found.t)


@pytest.mark.parametrize("case", CASES)
def test_loop_and_nodes_keep_with_the_same_bits(case: str) -> None:
    a = loop(*CASES[case])
    run, ended = both(a), compiled(a)
    assert (run.fault and told(run.fault)) == FAULTS.get(case)
    assert (ended.fault and told(ended.fault)) == FAULTS.get(case)
    if not run.fault:
        assert run.keeps["slow"]["acted"] > 10
        assert run.keeps["slow"]["margin"] > -1e-3
        assert np.nanmax(run.kept["keeping"]) == (2 if case == "gives way" else 1)
    if case == "gives way":
        assert run.keeps["fast"]["gave_way"] == {"instants": 135, "first": pytest.approx(1.66)}
        assert "keep fast gave way at 135 control instants (from t = 1.66 s)" in map(str, run.warnings)


@pytest.mark.parametrize("change", UNSOLVED)
@pytest.mark.parametrize(
    "more", [(), ("controller.delay=2", "controller.predictor=true"), ("plant.sensor.noise=1e-4",)]
)
def test_inputs_that_are_only_clipped_are_a_fault_after_as_many_periods_as_a_command_may_be_held(
    change: str, more: Sequence[str]
) -> None:
    a, allowed = unsolved(change, *more), UNSOLVED[change]
    run, ended = both(a), compiled(a)
    assert run.fault is not None
    assert told(run.fault) == ("law", allowed / 100)
    assert ended.stopped == 10 * allowed
    assert ended.fault is None if "controller.predictor=true" in more else told(ended.fault) == told(run.fault)
    assert run.clipped == {"instants": allowed + 1, "first": 0.0}
    assert "no inputs were found that keep all, for more control periods in a row than" in run.fault["text"]


def test_what_is_kept_is_in_columns_units_and_summary(tmp_path: Any) -> None:
    a = loop(*CONFLICT)
    run, names = simulate_fused(a, EVERY), ["margin_slow", "margin_fast", "active_slow", "active_fast", "keeping"]
    assert list(run.kept) == names
    run.write_csv(tmp_path / "run.csv")
    assert set(names) < set((tmp_path / "run.csv").read_text().splitlines()[0].split(","))
    assert [run.units[name] for name in names] == ["m/s", "m/s", "1", "1", "1"]
    assert run.quantities["margin_slow"].description == "0.05 - V"
    assert_array_equal(run["margin_slow"], 0.05 - run["V"])
    assert "slow: least margin = " in repr(run)
    assert run.final()["keeps"] == run.keeps
    plain = simulate_fused(loop(), EVERY)
    assert not plain.kept
    assert "keeps" not in plain.final()
