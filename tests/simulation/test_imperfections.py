"""Effects of drives and sensors, losses and all limits in the compiled loop: the bits of the nodes, any of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.definitions import cache
from servonode.kernels import ir
from servonode.kernels.language import parse
from servonode.kernels.library import library_text
from servonode.record.run import Run
from servonode.simulation import loop_source, reading_errors
from servonode.simulation import simulate as modes
from servonode.simulation.imperfections import is_perfect
from servonode.simulation.reading_errors import ReadingErrors

NOISE = "plant.sensor.noise={X = 0.002, psi = 0.002, V = 0.005}"
DELAYED = ["controller.delay=2", "controller.predictor=true"]
CASES: dict[str, tuple[str, list[str]]] = {
    "limit": ("trailer_pursuit", ["plant.actuator.limit=0.01", "plant.actuator.quantum=0.003"]),
    "rate_limit": ("trailer_pursuit", ["plant.actuator.rate_limit=0.01"]),
    "lag": ("trailer_pursuit", ["plant.actuator.lag={U1 = 0.05}"]),
    "drive_delay": ("trailer_pursuit", ["plant.actuator.delay={U1 = 0.02, U2 = 0.0035}"]),
    "quantum": ("trailer_pursuit", ["plant.actuator.quantum=0.005"]),
    "dead_zone": ("trailer_pursuit", ["plant.actuator.dead_zone=0.005"]),
    "bias": ("trailer_pursuit", ["plant.sensor.bias={psi = 0.01}"]),
    "sensor_quantum": ("trailer_pursuit", ["plant.sensor.quantum={psi = 0.001}"]),
    "sensor_delay": ("trailer_pursuit", ["plant.sensor.delay=0.0234"]),
    "noise": ("trailer_pursuit", [NOISE]),
    "noise_published_rarely": ("trailer_pursuit", [NOISE, "plant.publish_every=7"]),
    "lost": ("trailer_pursuit", ["plant.sensor.drop=0.4"]),
    "the_first_lost": ("trailer_pursuit", ["plant.sensor.drop=0.9", "run.seed=3"]),
    "all_lost": ("trailer_pursuit", ["plant.sensor.drop=0.999999"]),
    "lost_and_delayed": ("trailer_pursuit", ["plant.sensor.drop=0.3", *DELAYED]),
    "lost_with_integrals": ("trailer_pursuit", ["plant.sensor.drop=0.3", "controller.gains.integral=0.5"]),
    "input_rate": ("trailer_pursuit", ["plant.safety.rate_limit=0.05"]),
    "power": ("trailer_pursuit", ["plant.safety.power_limit=0.01"]),
    "power_later": ("trailer_pursuit", ["plant.safety.power_limit=0.01", "plant.sensor.drop=0.3", *DELAYED]),
    "no_power": ("trailer_pursuit", ["plant.safety.power_limit=0"]),
    "judged": ("trailer_pursuit", ["plant.safety.state_rate_limit=500", NOISE, "plant.sensor.drop=0.3"]),
    "judged_rarely": ("trailer_pursuit", ["plant.safety.state_limit=10", NOISE, "plant.publish_every=7"]),
    "own_states": ("trailer_look_ahead", [NOISE, "plant.sensor.drop=0.3", "plant.actuator.lag=0.02"]),
    "its_own_faults": ("sphero_pursuit", ["plant.sensor.noise=1e-5", "plant.sensor.drop=0.2"]),
    "held_constraints": ("snowboarder_straight", ["plant.sensor.noise=1e-6", "plant.actuator.lag=0.01"]),
    "implicit_steps": ("trailer_pursuit", ["plant.integrator=radau", "plant.actuator.lag=0.02", NOISE]),
}


def loop_of(name: str, words: list[str], duration: float = 0.637) -> ClosedLoop:
    return resolve(read_launch(name, [f"run.duration={duration}", "run.mode=lockstep", *words]), strict=False)


def table(run: Run) -> dict[str, Any]:
    """All that a run records, with its goal's time."""
    goal_t = {} if run.goal_t is None else {"goal_t": run.goal_t}
    return {"k": run.k, "work": run.work, "energy": run.energy, **run.columns, **goal_t}


def counts(run: Run) -> dict[str, int]:
    return {name: count for name, count in run.stats.get("counts", {}).items() if count}


def assert_same_bits(closed_loop: ClosedLoop, every: int = 1) -> Run:
    """Compare the compiled loop with the nodes, and give the nodes' run."""
    nodes = modes.simulate_nodes(closed_loop, every)
    fused = modes.simulate_fused(closed_loop, every)
    ours, theirs = table(fused), table(nodes)
    assert "goal_t" in ours or np.array_equal(theirs.pop("goal_t"), theirs["t"])
    assert list(ours) == list(theirs)
    for name, column in ours.items():
        np.testing.assert_array_equal(column.view(np.int64), theirs[name].view(np.int64), name)
    assert (fused.residual_max, fused.limits, fused.fault) == (nodes.residual_max, nodes.limits, nodes.fault)
    assert sorted(map(str, fused.warnings)) == sorted(map(str, nodes.warnings))
    if not is_perfect(closed_loop):
        assert counts(fused) == counts(nodes)
    return nodes


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled loop must not hand over to the nodes; those of a test's own are not counted."""
    simulate_nodes = modes.simulate_nodes

    def once(closed_loop: ClosedLoop, every: int) -> Run:
        monkeypatch.setattr(modes, "simulate_nodes", refuse)
        return simulate_nodes(closed_loop, every)

    def refuse(*_: Any) -> None:
        raise AssertionError("the fused loop gave up")

    monkeypatch.setattr(modes, "simulate_nodes", once)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("case", CASES)
def test_imperfections_have_the_bits_of_the_nodes(case: str) -> None:
    closed_loop = loop_of(*CASES[case])
    assert not is_perfect(closed_loop)
    assert not assert_same_bits(closed_loop).fault


SIZES = st.sampled_from([0.0, 1e-3, 0.01, 0.3])
LIMITS = st.sampled_from([0.0, 0.002, 0.01, 1.0, 1e9])
WAITS = st.sampled_from([0.0, 0.0004, 0.001, 0.0125, 0.04])
CHOICES = {
    "plant.actuator.limit": LIMITS,
    "plant.actuator.rate_limit": LIMITS,
    "plant.actuator.lag": WAITS,
    "plant.actuator.delay": WAITS,
    "plant.actuator.quantum": SIZES,
    "plant.actuator.dead_zone": SIZES,
    "plant.sensor.noise": SIZES.map(lambda size: size / 100),
    "plant.sensor.bias": SIZES.map(lambda size: -size),
    "plant.sensor.quantum": SIZES.map(lambda size: size / 10),
    "plant.sensor.delay": WAITS,
    "plant.sensor.drop": st.sampled_from([0.0, 0.1, 0.8]),
    "plant.safety.limit": LIMITS,
    "plant.safety.rate_limit": LIMITS,
    "plant.safety.power_limit": LIMITS,
    "plant.safety.state_limit": st.just(1e4),
    "plant.safety.state_rate_limit": st.sampled_from([1.0, 1e4]),
    "plant.safety.repeats": st.sampled_from([1, 5]),
    "plant.publish_every": st.sampled_from([2, 10, 13]),
    "controller.delay": st.sampled_from([1, 3]),
    "controller.predictor": st.just("true"),
    "controller.period": st.sampled_from([0.001, 0.004, 0.02]),
    "controller.gains.integral": st.just(0.4),
    "run.seed": st.integers(0, 2**31),
}
LAUNCHED = st.dictionaries(st.sampled_from(sorted(CHOICES)), st.none(), max_size=8).flatmap(
    lambda names: st.fixed_dictionaries({name: CHOICES[name] for name in names})
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, database=None)
@given(LAUNCHED, st.sampled_from([1, 7, 1000]))
def test_any_settings_have_the_bits_of_the_nodes(launched: dict[str, Any], every: int) -> None:
    assert_same_bits(loop_of("trailer_pursuit", [f"{name}={value}" for name, value in launched.items()], 0.213), every)


OTHERS = ("trailer_look_ahead", "trailer_reverse", "sphero_pursuit", "snowboarder_carve", "trailer_rates")
EACH = [
    pytest.param("trailer_pursuit", marks=pytest.mark.slow),
    *(pytest.param(each, marks=pytest.mark.soak) for each in OTHERS),
]


@pytest.mark.parametrize("name", EACH)
def test_so_do_many_more_on_other_machines(name: str) -> None:
    @settings(max_examples=400, deadline=None, database=None)
    @given(LAUNCHED, st.sampled_from([1, 7, 1000]))
    def compare(launched: dict[str, Any], every: int) -> None:
        words = [f"{key}={value}" for key, value in launched.items() if key != "controller.period"]
        assert_same_bits(loop_of(name, words, 0.213), every)

    compare()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("limit", ["plant.actuator.limit=0", "plant.safety.limit=0"])
def test_a_zero_keeps_its_sign_where_nothing_may_act(limit: str) -> None:
    assert_same_bits(loop_of("trailer_pursuit", [limit]))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("more", [[], [NOISE]])
def test_a_simulation_of_hardware_begins_without_a_soft_start(more: list[str]) -> None:
    closed_loop = loop_of("trailer_pursuit_loopback", ["run.mode=realtime", *more])
    assert closed_loop.safety.soft_start.at_first
    assert np.any(assert_same_bits(closed_loop).input["U1"][:100])


@pytest.mark.usefixtures("alone")
def test_a_run_of_many_windows_and_pauses_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_errors, "LARGEST", 64)
    monkeypatch.setattr(loop_source, "_loops", {})
    monkeypatch.setattr(
        loop_source, "library_text", lambda *given: library_text(*given).replace("PAUSE = 2000000", "PAUSE = 70")
    )
    assert_same_bits(loop_of("trailer_pursuit", [NOISE, "plant.sensor.drop=0.2", "plant.actuator.delay=0.013"]))


def test_the_errors_of_readings_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_errors, "LARGEST", 100)
    whole, thin = (
        loop_of("trailer_pursuit", [NOISE, f"controller.period={period}", "plant.publish_every=1"], 0.9)
        for period in (0.001, 0.3)
    )  # of each third of a second the first reading is used
    every, some = ReadingErrors(whole, every=False), ReadingErrors(thin, every=False)
    assert len(every.noise) == 50
    assert len(some.noise) == 1
    found = []
    for _ in range(4):
        some.draw()
        found.append(some.noise[0].copy())
    wanted = np.random.default_rng(1).standard_normal((901, whole.machine.n_state)) * whole.sensor.noise
    np.testing.assert_array_equal(found, wanted[[0, 300, 600, 900]])


def test_other_effects_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    modes.simulate_fused(loop_of(*CASES["noise"]), 10)

    def refuse(*_: Any) -> None:
        raise AssertionError("compiled anew")

    monkeypatch.setattr(cache, "_compiled", refuse)
    for case, (name, words) in CASES.items():
        if name == "trailer_pursuit" and case != "implicit_steps":
            modes.simulate_fused(loop_of(name, [*words, "run.seed=7"]), 10)


def test_a_loop_without_effects_has_none_of_their_operations() -> None:
    closed_loop = loop_of("trailer_pursuit", [])
    assert closed_loop.control is not None
    perfect, imperfect = (loop_source._source(closed_loop, closed_loop.control.law, each) for each in (False, True))
    effects = {"measure", "drives", "decide", "accept"}
    called = [
        {
            each.function.name
            for own in parse(text, cache.text_of).own
            for each in own.called
            if isinstance(each, ir.Called)
        }
        for text in (perfect, imperfect)
    ]
    assert not effects & called[0]
    assert effects <= called[1]


def test_a_state_that_is_lost_for_too_long_is_left_to_the_nodes() -> None:
    words = ["plant.sensor.drop=0.6", "plant.safety.repeats=1"]
    nodes = assert_same_bits(loop_of("trailer_pursuit", words))
    assert nodes.stats["counts"]["over_budget"]


def test_a_reading_that_jumps_is_left_to_the_nodes() -> None:
    nodes = assert_same_bits(loop_of("trailer_pursuit", [NOISE, "plant.safety.state_rate_limit=1"]))
    assert nodes.fault is not None
    assert nodes.fault["name"] == "implausible_state"
