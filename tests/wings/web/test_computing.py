"""What a report computes of its run again, in WebAssembly, has the numbers of a simulation; what it cannot it says."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import packaged
from servonode.errors import ServonodeError
from servonode.record.run import Run, default_every
from servonode.simulation.simulate import can_fuse, simulate_fused
from servonode.views.panels import columns_of
from servonode.views.scene import Scene
from servonode.wings.web.computing import live_of
from servonode.wings.web.html_report import Motion, recorded_views
from tests.helpers.live_runs import apart, before_fault, computed, needs_node

ALIKE = 1e-9  # of a column's range
LARGEST, LARGEST_KEPT = 20_000, 40_000  # bytes of a module, and of one that has the solver
SLOW, FAST = {"expression": "0.05 - V", "rate": 20.0}, {"expression": "V + 0.3 - 0.2*t", "tolerance": 10.0}
KEPT: dict[str, dict[str, Any]] = {
    "keeps": {"keep": {"slow": SLOW}, "limits": "keep", "limit": 0.01},
    "violated": {"keep": {"slow": "0.05 - V - 0.02*t"}, "limit": 0.001},
    "conflict": {"keep": {"slow": SLOW, "fast": FAST}, "limits": "keep", "conflict": "fault", "limit": 0.03},
    "both sides": {"keep": {"turn": "min(0.5 - psi, psi + 0.02)"}, "limit": 1.0},
}


def kept(case: str, **more: Any) -> servonode.Loop:
    """The robot with trailer that keeps something."""
    given = dict(KEPT[case])
    limit = given.pop("limit")
    stated = {f"controller__{key}": value for key, value in given.items()}
    return servonode.load("trailer_pursuit", run__duration=3.0, plant__safety__limit=limit, **stated, **more)


FEW = ("trailer_pursuit", "snowboarder_slalom", "hoop_flies", "ball_skip")


def lives(names: Any) -> dict[str, tuple[Run, dict[str, Any]]]:
    """The run and what a browser computes it from, of the launch files that the fused loop takes."""
    found = {}
    for name in names:
        try:
            loop = servonode.load(name)
        except ServonodeError:
            continue
        if can_fuse(loop.closed_loop):
            run = loop.simulate()
            found[name] = run, live_of(run)
    return found


@cache
def kept_live(case: str) -> tuple[Run, dict[str, Any]]:
    run = kept(case).simulate()
    return run, live_of(run)


def check(found: dict[str, tuple[Run, dict[str, Any]]], largest: int = LARGEST) -> None:
    """The first run is alike; the largest differences are printed."""
    results = computed([(live, [{}]) for _, live in found.values()])
    for (name, (run, live)), result in zip(found.items(), results, strict=True):
        (again,) = result["runs"]
        end = before_fault(run)
        differences = apart(again["columns"], columns_of(run), end)
        worst = max(differences, key=lambda each: differences[each])
        print(f"{name}: {len(live['module']) * 3 // 4} bytes, {differences[worst]:.1e} of the range of {worst}")
        assert len(live["module"]) * 3 // 4 <= largest, name
        assert result["first"]["ok"], (name, result["first"])
        assert np.array_equal(again["t"][:end], run.t[:end])
        if differences[worst] > ALIKE:  # no more than what the last bit of a start does to it
            assert differences[worst] <= 2 * by_the_last_bit(run, end)[worst], (name, worst, differences[worst])
        faults = [(each["t"], f"{each['name']}: {each['text']}") for each in run.faults[:1]]
        assert [(each["t"], each["text"]) for each in again["marks"]] == faults
        if not faults:
            check_pictures(run, live, again)


def by_the_last_bit(run: Run, end: int) -> dict[str, float]:
    """How far apart a simulation is whose first state has another last bit: what rounding makes of this run."""
    start = run.closed_loop.start.copy()
    start[0] = np.nextafter(start[0], np.inf)
    beside = run.closed_loop.with_parts(start=start)
    return apart(columns_of(simulate_fused(beside, default_every(beside))), columns_of(run), end)


def check_pictures(run: Run, live: dict[str, Any], again: dict[str, Any]) -> None:
    """The machine is drawn as Python draws it, at three instants, but for the digits of the file."""
    motion = Motion.of(run.t)
    assert again["instants"] == run.t[motion.instants].tolist()
    last = len(motion.instants) - 1
    for k, view in enumerate(recorded_views(Scene.of(run), motion, columns_of(run))):
        for found, i in zip(again["shapes"][k], (0, last >> 1, last), strict=True):
            known = view["shapes"][i]
            assert found["caption"] == known["caption"]
            assert [each["name"] for each in found["arrows"]] == [each["name"] for each in known["arrows"]]
            for kind in ("lines", *["guides"] * (not live["views"][k]["moving"])):
                assert len(found[kind]) == len(known[kind]), kind
                for line, wanted in zip(found[kind], known[kind], strict=True):
                    assert np.allclose(line, wanted, rtol=0, atol=1e-2)


@needs_node
def test_a_report_computes_its_run_again() -> None:
    check(lives(FEW))


@needs_node
def test_a_report_of_a_run_that_keeps_computes_it_again() -> None:
    found = {case: kept_live(case) for case in KEPT}
    check(found, LARGEST_KEPT)
    offered = {case: {each["key"] for each in live["keys"]} for case, (_, live) in found.items()}
    numbers = {f"controller.keep.slow.{word}" for word in ("margin", "tolerance", "rate")}
    assert numbers | {"plant.safety.limit", "controller.period"} <= offered["keeps"]
    assert {f"controller.keep.turn.{word}" for word in ("margin", "tolerance", "rate", "brake")} <= offered[
        "both sides"
    ]
    fixed = {each["key"]: each["reason"] for each in found["both sides"][1]["fixed"]}
    assert "as it is automatic; give rate and brake of each keep" in fixed["plant.safety.limit"]


KEPT_OTHERS = {
    "keeps": {"controller.keep.slow.margin": 0.02, "controller.keep.slow.rate": 5.0, "plant.safety.limit": 0.02},
    "violated": {"controller.keep.slow.tolerance": 0.002},
    "conflict": {"controller.keep.fast.margin": 0.1, "controller.keep.slow.rate": 8.0},
    "both sides": {"controller.keep.turn.margin": 0.015, "controller.keep.turn.brake": 0.4},
}


@needs_node
def test_with_other_numbers_of_keeps_it_computes_what_a_simulation_does() -> None:
    found = computed([(kept_live(case)[1], [values]) for case, values in KEPT_OTHERS.items()])
    for (case, values), each in zip(KEPT_OTHERS.items(), found, strict=True):
        (again,), known = each["runs"], kept(case).simulate(values=values)
        assert again["refused"] is None
        faults = [(each["t"], f"{each['name']}: {each['text']}") for each in known.faults[:1]]
        assert [(each["t"], each["text"]) for each in again["marks"]] == faults
        assert max(apart(again["columns"], columns_of(known), before_fault(known)).values()) <= ALIKE


@needs_node
def test_a_margin_above_the_value_at_the_start_is_refused_with_the_words_of_a_simulation() -> None:
    base, values = kept("keeps"), {"controller.keep.slow.margin": 0.06}
    with pytest.raises(ServonodeError) as refused:
        base.simulate(values=values)
    (found,) = computed([(kept_live("keeps")[1], [values])])
    assert found["runs"][0]["refused"] in str(refused.value)


@needs_node
@pytest.mark.slow
def test_reports_of_all_packaged_launch_files_compute_their_runs() -> None:
    check(lives(packaged()))


OTHERS = {
    "trailer_reverse": {"controller.gains.lambda": 3.3, "plant.parameters.m1": 5.0, "controller.delay": 2.0},
    "trailer_pursuit": {"goal.speed": 1.2, "run.duration": 20.0, "controller.period": 0.02},
    "trailer_coast": {"plant.initial.phi": 0.5, "plant.parameters.c_b": 0.2},
}


@needs_node
def test_with_other_numbers_it_computes_what_a_simulation_does() -> None:
    base = {name: servonode.load(name) for name in OTHERS}
    found = computed([(live_of(base[name].simulate()), [values]) for name, values in OTHERS.items()])
    for (name, values), each in zip(OTHERS.items(), found, strict=True):
        (again,) = each["runs"]
        known = base[name].simulate(values=values, every=_every(again))
        assert again["refused"] is None
        assert np.array_equal(again["t"], known.t)
        assert max(apart(again["columns"], columns_of(known), len(known.t)).values()) <= ALIKE


def _every(again: dict[str, Any]) -> int:
    return round(float(again["t"][1] - again["t"][0]) / 1e-3)


@needs_node
def test_what_a_simulation_refuses_is_refused_with_its_words() -> None:
    cases: dict[str, dict[str, float]] = {
        "trailer_pursuit": {"plant.parameters.m1": -1.0},
        "snowboarder_turns_back": {"plant.parameters.l1": -2.0},
    }
    base = {name: servonode.load(name) for name in cases}
    found = computed([(live_of(base[name].simulate()), [values]) for name, values in cases.items()])
    for (name, values), each in zip(cases.items(), found, strict=True):
        with pytest.raises(ServonodeError) as refused:
            base[name].simulate(values=values)
        assert each["runs"][0]["refused"] in str(refused.value)


@needs_node
def test_a_fault_under_other_numbers_ends_the_run_with_the_words_of_a_simulation() -> None:
    base, values = servonode.load("snowboarder_too_weak"), {"plant.parameters.alpha": 0.16}
    (found,) = computed([(live_of(base.simulate()), [values])])
    known = base.simulate(values=values)
    assert known.faults
    first = known.faults[0]
    assert found["runs"][0]["marks"] == [{"t": first["t"], "text": f"{first['name']}: {first['text']}"}]


@pytest.mark.parametrize(
    ("name", "given", "word"),
    [
        ("trailer_estimated", {}, "estimate"),
        ("trailer_pursuit_mujoco", {}, "driver"),
        ("trailer_reverse", {"run__duration": 0.5, "plant__sensor__noise": 0.01}, ""),
    ],
)
def test_what_cannot_be_computed_in_the_file_says_why(name: str, given: dict[str, Any], word: str) -> None:
    if name.endswith("mujoco"):
        pytest.importorskip("mujoco")
    live = live_of(
        servonode.load(name, run__duration=0.5, **given).simulate() if not given else servonode.simulate(name, **given)
    )
    assert (word in live["reason"]) if word else ("reason" not in live)


@needs_node
def test_noise_is_that_of_the_first_run() -> None:
    run = servonode.simulate("trailer_reverse", run__duration=3.0, plant__sensor__noise=0.001, plant__safety__limit=3.0)
    live = live_of(run)
    (found,) = computed([(live, [{}, {"plant.parameters.m1": 4.5}])])
    first, other = found["runs"]
    assert max(apart(first["columns"], columns_of(run), len(run.t)).values()) <= ALIKE
    known = run.closed_loop.changed({"plant.parameters.m1": 4.5})
    again = simulate_fused(known, run.k[1] - run.k[0])
    assert max(apart(other["columns"], columns_of(again), len(again.t)).values()) <= ALIKE
    assert {each["key"] for each in live["fixed"]} >= {"run.duration", "plant.sensor.noise"}


REFUSED: tuple[tuple[dict[str, float], str], ...] = (
    ({"controller.delay": 2.5}, "[controller] delay: 2.5 is not a whole number"),
    ({"controller.delay": -1.0}, "[controller] delay: -1 1 must be at least 0"),
    ({"controller.period": 0.0}, "[controller] period: 0 s must be at least 0.001"),
    ({"run.duration": -3.0}, "[run] duration: -3 s must be at least"),
    ({"plant.parameters.m1": float("inf")}, "not a finite number"),
)


@needs_node
def test_a_value_that_cannot_be_is_refused_in_words() -> None:
    live = live_of(servonode.simulate("trailer_reverse", run__duration=0.1))
    (found,) = computed([(live, [values for values, _ in REFUSED])])
    for (_, text), again in zip(REFUSED, found["runs"], strict=True):
        assert text in again["refused"]
        assert again["columns"] == {}


@pytest.mark.parametrize("more", [
    {"plant__safety__power_limit": 5.0}, {"plant__actuator__lag": 0.05}, {"plant__safety__rate_limit": 5.0},
])  # fmt: skip
def test_limits_and_lags_with_ideal_sensors_are_computed(more: dict[str, float]) -> None:
    assert "reason" not in live_of(servonode.simulate("trailer_reverse", run__duration=1.0, **more))


def test_what_a_preparation_may_refuse_is_not_offered() -> None:
    found = live_of(servonode.simulate("hoop_incline"))
    reasons = {each["key"]: each["reason"] for each in found["fixed"]}
    assert "judges it" in reasons["plant.parameters.E_0"]
    assert not any(each["key"].startswith("plant.parameters.") for each in found["keys"])
