"""Faults that are injected: each is found, made safe and told by the record; the same bits wherever time may stand."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from signal import SIGCONT, SIGSTOP
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import servonode
from servonode.bus import MemoryBus, Switchboard
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.closed_loop.launch_file import LaunchError, launch_of_table, read_launch, table_of
from servonode.closed_loop.launch_text import launch_text
from servonode.nodes.injected import MOST, InjectedFaults
from servonode.nodes.plant_node import PlantNode
from servonode.plants.drivers.device import InjectedLink
from servonode.plants.injection import KINDS, Injection, Injector
from servonode.record.events import Events, injected_text, with_found
from servonode.record.run import Run
from servonode.record.typed import EVENTS
from tests.safety.cases import HOP, LATENESS, WAITS, T, W, computer
from tests.safety.test_watchdogs import armed_again, asked
from tests.virtual import LOOK_NS, Computer

Fault = dict[str, Any]
BEGIN_S = 0.5
TRAILER: dict[str, Any] = {"launch": "trailer_pursuit_lockstep", "run__duration": 1.5}
JUDGED = TRAILER | {"plant__safety__state_rate_limit": 2.0}
RIDER: dict[str, Any] = {"launch": "snowboarder_slalom_lockstep", "run__duration": 6.0}
DAMP, ZERO = "damp", "zero"  # safe states
CASES: list[tuple[dict[str, Any], Fault, str]] = [  # the run, the fault, the name of the one that the plant finds
    (RIDER, {"on": "drive", "kind": "off"}, "fallen"),
    (RIDER, {"on": "drive", "kind": "stuck"}, "fallen"),
    (RIDER, {"on": "drive", "kind": "wrong_sign"}, "fallen"),
    (RIDER, {"on": "drive", "kind": "intermittent", "size": 1.0}, "fallen"),
    (RIDER, {"on": "drive", "kind": "garbage", "size": 2.0}, "fallen"),
    (RIDER, {"on": "drive", "kind": "noise", "size": 2000.0}, "fallen"),
    (RIDER, {"on": "drive", "kind": "slow", "size": 1.0}, "fallen"),
    (RIDER, {"on": "drive", "kind": "delayed", "size": 0.3}, "fallen"),
    (JUDGED, {"on": "sensor", "kind": "off", "name": "theta1", "at": 1.2}, "implausible_state"),
    (RIDER, {"on": "sensor", "kind": "stuck", "name": "theta"}, "fallen"),
    (RIDER, {"on": "sensor", "kind": "wrong_sign", "name": "theta"}, "fallen"),
    (JUDGED, {"on": "sensor", "kind": "intermittent", "name": "theta1", "size": 0.1, "at": 1.2}, "implausible_state"),
    (JUDGED, {"on": "sensor", "kind": "garbage", "name": "phi", "size": 3.0}, "implausible_state"),
    (JUDGED, {"on": "sensor", "kind": "noise", "name": "phi", "size": 1.0}, "implausible_state"),
    (RIDER, {"on": "sensor", "kind": "slow", "name": "theta", "size": 2.0}, "fallen"),
    (RIDER, {"on": "sensor", "kind": "delayed", "name": "theta", "size": 1.0}, "fallen"),
    (TRAILER, {"on": "link", "kind": "off"}, "stale_state"),
    (TRAILER, {"on": "link", "kind": "off", "name": "state"}, "stale_state"),
    (TRAILER, {"on": "link", "kind": "off", "name": "applied"}, "stale_applied"),
    (TRAILER, {"on": "link", "kind": "intermittent", "size": 0.1}, "stale_state"),
    (TRAILER, {"on": "link", "kind": "delayed", "size": 0.2}, "stale_state"),
    (TRAILER, {"on": "link", "kind": "drop", "size": 0.9}, "stale_state"),
    (TRAILER, {"on": "link", "kind": "garbage"}, "stale_state"),
]


def named(case: tuple[dict[str, Any], Fault, str]) -> str:
    fault = case[1]
    return "-".join(str(fault[word]) for word in ("on", "kind", "name") if word in fault)


def injected(run: Mapping[str, Any], *faults: Fault) -> Run:
    """The simulation of a run with these faults, in lockstep."""
    return servonode.simulate(fault=[{"at": BEGIN_S} | each for each in faults], **run)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_an_injected_fault_is_found_and_told_by_the_record(case: tuple[dict[str, Any], Fault, str]) -> None:
    run, fault, name = case
    found = injected(run, fault)
    (told,) = found.stats["injected"]
    assert (told["on"], told["kind"], told["found"]) == (fault["on"], fault["kind"], name)
    assert told["t"] == pytest.approx(fault.get("at", BEGIN_S))
    assert found.fault is not None
    assert found.fault["name"] == name
    assert told["after"] == pytest.approx(found.fault["t"] - told["t"])
    assert found.stats["counts"][f"injected_{fault['on']}_{fault['kind']}"] == 1
    assert 0.0 <= told["after"] < 6.0


@pytest.mark.parametrize("case", CASES, ids=named)
def test_before_a_fault_begins_it_changes_no_bit(case: tuple[dict[str, Any], Fault, str]) -> None:
    run, fault, _ = case
    whole = {"at": 1e-3 * round(1e3 * fault.get("at", BEGIN_S))}
    short = run | {"run__duration": whole["at"]}
    without, at = servonode.simulate(**short), injected(run, fault)
    rows = len(without.t) - 1
    for column in ("t", *without.state):
        assert np.array_equal(without.columns[column][:rows], at.columns[column][:rows]), column


def test_a_lost_link_makes_the_machine_zero_by_its_own_watchdog_although_no_zero_reaches_it() -> None:
    found = injected(TRAILER, {"on": "link", "kind": "off"})
    inputs = np.abs(np.array(list(found.input.values()))).max(axis=0)
    after = found.t > BEGIN_S + 0.1
    assert inputs[~after].max() > 0.0
    assert not inputs[after].any()


def test_every_kind_of_every_place_has_a_case_and_nodes_are_tested_with_processes() -> None:
    tested = {(fault["on"], fault["kind"]) for _, fault, _ in CASES} | {("node", kind) for kind in KINDS["node"]}
    assert tested == {(on, kind) for on, kinds in KINDS.items() for kind in kinds}


def test_a_fault_that_nobody_finds_is_told_as_such() -> None:
    found = injected(TRAILER, {"on": "drive", "kind": "off", "name": "U1"})
    (told,) = found.stats["injected"]
    assert found.fault is None
    assert (told["found"], told["after"]) == (None, None)
    assert injected_text(told) == "drive off (U1) at t = 0.500 s: no fault was found"


def test_a_fault_ends_after_its_duration() -> None:
    found = injected(TRAILER, {"on": "drive", "kind": "off", "duration": 0.2})
    inputs = np.abs(found.input["U1"])
    during = (found.t > BEGIN_S) & (found.t <= BEGIN_S + 0.2)
    assert not inputs[during].any()
    assert inputs[found.t > BEGIN_S + 0.21].max() > 0.0
    (told,) = found.stats["injected"]
    assert told["duration"] == pytest.approx(0.2)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    noise = {"on": "sensor", "kind": "noise", "size": 1e-3}
    runs = [injected(TRAILER | {"run__seed": seed}, noise) for seed in (1, 1, 2)]
    assert np.array_equal(runs[0].state["X"], runs[1].state["X"])
    assert not np.array_equal(runs[0].state["X"], runs[2].state["X"])


def test_a_second_fault_changes_no_random_number_of_the_first() -> None:
    noise = {"on": "drive", "kind": "noise", "size": 1e-3, "name": "U1"}
    late = {"on": "drive", "kind": "noise", "size": 1.0, "name": "U2", "at": 1.0}
    alone, both = injected(TRAILER, noise), injected(TRAILER, noise, late)
    before = alone.t <= 1.0
    assert np.array_equal(alone.state["X"][before], both.state["X"][before])


def test_a_sensor_of_an_estimator_that_is_stuck_is_found_by_the_gate() -> None:
    words = {"launch": "trailer_estimated", "run__mode": "lockstep", "run__duration": 3.0, "estimator__gate": 5.0}
    found = injected(words, {"on": "sensor", "kind": "stuck", "name": "encoder_left", "at": 1.5})
    assert found.stats["injected"][0]["found"] == "law"
    assert "readings of encoder_right" in found.faults[0]["text"]  # the estimate follows the other one


def test_a_sensor_of_an_estimator_that_is_off_gives_no_readings() -> None:
    loop = servonode.load("trailer_estimated", fault=[{"on": "sensor", "kind": "off", "name": "gyroscope", "at": 0.1}])
    plant = loop.closed_loop.plant()
    given = []
    for _ in range(3):
        given.append(set(plant.read().readings or {}))
        plant.advance(100)
    assert "gyroscope" in given[0] & given[1]
    assert "gyroscope" not in given[2]
    assert "encoder_left" in given[2]


# what is refused


WRONG: list[tuple[Fault, str]] = [
    ({"on": "drive", "kind": "drop"}, r"\[fault.0\] kind: drop is no fault of a drive; choose off, stuck, wrong_sign"),
    (
        {"on": "link", "kind": "stuck"},
        r"stuck is no fault of a link; choose off, intermittent, delayed, drop or garbage",
    ),
    ({"on": "node", "kind": "off", "name": "plant"}, r"off is no fault of a node; choose stall or kill"),
    ({"on": "motor", "kind": "off"}, r'"motor" is unknown; choose drive, link, node or sensor'),
    ({"on": "drive", "kind": "of"}, r'"of" is unknown; did you mean off\?'),
    ({"on": "drive", "kind": "off", "name": "U3"}, r"name: U3 is no drive; .*hoose U1 or U2"),
    ({"on": "sensor", "kind": "off", "name": "gyro"}, r"name: gyro is no sensor; .*hoose .*Omega"),
    ({"on": "link", "kind": "off", "name": "both"}, r"name: both is no link; choose applied or state"),
    ({"on": "node", "kind": "kill"}, r"name: missing; name the node that fails: target, controller or plant"),
    ({"on": "node", "kind": "kill", "name": "relay"}, r"name: relay is no node; .*hoose controller, plant or target"),
    ({"on": "node", "kind": "stall", "name": "plant"}, r"duration: give for how long the node stalls, at most 60 s"),
    (
        {"on": "node", "kind": "stall", "name": "plant", "duration": 61.0},
        r"duration: give for how long the node stalls",
    ),
    ({"on": "drive", "kind": "noise"}, r"size: give the standard deviation, in the unit of the signal, above 0"),
    ({"on": "drive", "kind": "off", "size": 1.0}, r"size: off of a drive has no size; leave it out"),
    ({"on": "link", "kind": "drop", "size": 1.5}, r"size: 1.5 is more than 1; give the probability"),
    ({"on": "drive", "kind": "delayed", "size": 2000.0}, r"size: 2000 is more than 1000; give the dead time"),
    ({"on": "drive", "kind": "noise", "size": -1.0}, r"fault__0__size: -1.0 is not a number >= 0"),
    ({"on": "drive", "kind": "noise", "size": math.inf}, r"fault__0__size: inf is not finite"),
    ({"on": "drive", "kind": "off", "at": 30000.0}, r"at: 30000 s is not within the run of 1.5 s; give less"),
    ({"on": "drive", "kind": "off", "at": -1.0}, r"fault__0__at: -1.0 is not a number >= 0"),
    ({"on": "drive", "kind": "off", "duration": 0.0}, r"fault__0__duration: 0.0 is not a number > 0"),
    (
        {"on": "drive", "kind": "off", "until": 2.0},
        r"fault__0__until: unknown key; choose at, duration, hardware, kind, name, on or",
    ),
]


@pytest.mark.parametrize(("fault", "text"), WRONG)
def test_a_fault_that_cannot_be_is_refused_with_the_choices(fault: Fault, text: str) -> None:
    with pytest.raises(LaunchError, match=text):
        injected(TRAILER, fault)


def test_a_simulation_refuses_faults_of_processes() -> None:
    with pytest.raises(
        LaunchError, match=r"on: a simulation has no processes, so that none can kill; give servonode run"
    ):
        injected(TRAILER, {"on": "node", "kind": "kill", "name": "controller"})
    with pytest.raises(LaunchError, match="faults act at plant steps, which the continuous mode lacks"):
        servonode.simulate(control="continuous", fault=[{"on": "drive", "kind": "off", "at": 0.5}], **TRAILER)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            {"on": "drive", "kind": "off"},
            "on: a drive of a machine behind driver external cannot be made to fail from here",
        ),
        ({"on": "sensor", "kind": "off"}, "on: a sensor of a machine behind driver external cannot"),
        ({"on": "link", "kind": "off"}, "hardware: driver external may move a real machine; say hardware = true if"),
    ],
)
def test_what_may_be_hardware_is_not_made_to_fail_by_accident(fault: Fault, text: str) -> None:
    with pytest.raises(LaunchError, match=text):
        servonode.load("trailer_pursuit_external", fault=[{"at": 0.5} | fault])
    if "hardware" in text:
        servonode.load("trailer_pursuit_external", fault=[{"at": 0.5, "hardware": True} | fault])


def test_a_launch_file_with_faults_is_written_and_read_again() -> None:
    stated = read_launch(
        "trailer_pursuit", ['fault=[{on="drive",kind="off",at=1},{on="link",kind="drop",at=2,size=0.5}]']
    )
    again = launch_of_table(table_of(stated))
    assert again.fault == stated.fault
    assert launch_text(stated).count("\n[[fault]]\n") == 2


def test_a_check_judges_the_launch_file_without_its_faults() -> None:
    fault = [{"on": "drive", "kind": "wrong_sign", "at": 0.1}]
    assert servonode.check(fault=fault, **TRAILER).numbers == servonode.check(**TRAILER).numbers


# while a run is in progress


def requests(launch: str = "trailer_pursuit_lockstep", **overrides: Any) -> InjectedFaults:
    """The injected faults of a run of which nothing else is there."""
    loop = servonode.load(launch, **overrides).closed_loop
    return InjectedFaults(loop.injector(), Counter(), None, lambda: 1.0, loop.injection)


def test_a_node_stalls_for_plant_time_at_the_speed_that_an_operator_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, slept = servonode.load("trailer_pursuit").closed_loop, list[float]()
    node = PlantNode(loop, MemoryBus(Switchboard(), "plant"), (), every=1)
    monkeypatch.setattr("servonode.nodes.injected.time.sleep", slept.append)
    node.injected.request({"on": "node", "name": "plant", "kind": "stall", "duration": 0.3}, 0)
    node.pause.carry_out("speed", {"speed": 0.5})
    node.injected.begin(0)
    assert slept == [pytest.approx(0.6)]


def test_a_fault_that_an_operator_asks_for_begins_at_the_present_step_or_at_its_time() -> None:
    faults = requests()
    assert faults.request({"on": "drive", "kind": "off"}, 100) == {"done": True, "t": 0.1}
    assert faults.request({"on": "drive", "kind": "off", "at": 2.0}, 100) == {"done": True, "t": 2.0}
    late = faults.request({"on": "drive", "kind": "stuck", "at": 0.05, "duration": 1.0}, 100)
    assert late == {"done": True, "t": 0.1}
    faults.begin(100)
    assert [(each["kind"], each["t"], each["duration"]) for each in faults.noted] == [
        ("off", 0.1, None),
        ("stuck", 0.1, 1.0),
    ]
    assert faults.due == 2000


@contextmanager
def stalling(here: Computer) -> Iterator[Callable[[str, int], Any]]:
    """Have a plant on a virtual computer stall a node for so long [ns], at its next step."""
    plant: Any = here.processes[PLANT]
    signals = {SIGSTOP: here.freeze, SIGCONT: here.thaw}

    def sleep(seconds: float) -> None:
        plant.spend(ns := round(seconds * 1e9))
        plant.computed -= ns  # asleep is not at work

    def timer(seconds: float, act: Callable[..., object], words: tuple[Any, ...]) -> Any:
        at = here.clock() + round(seconds * 1e9)
        return SimpleNamespace(start=lambda: here.events.plan(at, lambda: act(*words)))

    def stall(node: str, ns: int) -> Any:
        fault = {"on": "node", "kind": "stall", "name": node, "duration": ns / 1e9, "hardware": True}
        return here.ask("fault", fault=fault)["done"]

    def process(_: Any, node: str) -> Any:
        return SimpleNamespace(send=lambda number, _: signals[number](node) or True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("servonode.nodes.injected.Timer", timer)
        patch.setattr("servonode.nodes.injected.time", SimpleNamespace(sleep=sleep))
        patch.setattr(InjectedFaults, "_process", process)
        yield stall


@pytest.mark.parametrize("kind", ["simulated", "serial", "external"])
@pytest.mark.parametrize(
    ("node", "ns", "found", "after"),
    [
        (TARGET, 2 * W, "", 0), (CONTROLLER, W - 2 * T, "", 0), (CONTROLLER, 2 * W, "stale_command", W + LOOK_NS),
        (PLANT, W // 2 - T, "", 0), (PLANT, 3 * W, "", 0), (PLANT, LATENESS + T, "host_stall", LATENESS + T),
    ],
)  # fmt: skip
def test_a_node_that_stalls_for_too_long_is_found(kind: str, node: str, ns: int, found: str, after: int) -> None:
    with computer(kind, WAITS) as here, stalling(here) as stall:
        here.until_active()
        here.go(30 * T)
        state = asked(here, 3 * HOP)  # has been answered
        assert stall(node, ns)
        here.go(ns + 20 * T)
        (told,) = here.plant.injected.noted
        assert (told["kind"], told["names"], told["duration"]) == ("stall", [node], pytest.approx(ns / 1e9))
        begun = state.mono + T  # the steps of a period are made at its end
        assert here.plant.pace.lateness.stalls == (node == PLANT and ns > W // 2)
        assert [each["name"] for each in here.ask("status")["faults"]] == [found] * bool(found)
        assert not found or here.status("fault", begun).mono == begun + after
        if found:
            armed_again(here)
        here.go(20 * T)
        assert here.ask("status")["lifecycle"] == "active"


REFUSED: list[tuple[object, str]] = [
    (None, "the request has no fault"),
    (3, "the request has no fault"),
    ({}, "this is no fault: Object missing required field `on`"),
    ({"on": "drive", "kind": "off", "more": 1}, "this is no fault: Object contains unknown field `more`"),
    ({"on": ["drive"], "kind": "off"}, "this is no fault: Expected `str`, got `array`"),
    ({"on": "drive", "kind": "drop", "size": 0.5}, "kind: drop is no fault of a drive; choose off"),
    ({"on": "drive", "kind": "off", "name": "x" * 10_000}, "name: xxx"),
    ({"on": "drive", "kind": "noise", "size": math.nan}, ""),
    ({"on": "drive", "kind": "noise", "size": math.inf}, "size: inf is more than 1e+50"),
    ({"on": "drive", "kind": "off", "at": math.nan}, ""),
    ({"on": "drive", "kind": "off", "at": 1e9}, "at: 1e+09 s is not within the run"),
    ({"on": "drive", "kind": "off", "duration": -1.0}, "this is no fault: Expected `float` > 0"),
    ({"on": "drive", "kind": "off", "hardware": "yes"}, "this is no fault: Expected `bool`"),
]


@pytest.mark.parametrize(("stated", "text"), REFUSED)
def test_a_wrong_request_for_a_fault_is_refused_and_changes_nothing(stated: object, text: str) -> None:
    faults = requests()
    answer = faults.request(stated, 100)
    assert answer.keys() == {"refused"}
    assert answer["refused"].startswith(text)
    assert len(answer["refused"]) < 4000
    assert faults.due is None


def test_a_flood_of_faults_is_refused() -> None:
    faults = requests()
    answers = [faults.request({"on": "drive", "kind": "off"}, k) for k in range(150)]
    assert sum("done" in each for each in answers) == MOST
    assert answers[-1]["refused"] == "this run has had 100 faults, the most that it takes; start another one"


def test_a_fault_of_hardware_needs_its_flag() -> None:
    faults = requests("trailer_pursuit_external")
    link = {"on": "link", "kind": "off"}
    assert faults.request(link, 1)["refused"].startswith("hardware: driver external may move a real machine")
    assert "done" in faults.request(link | {"hardware": True}, 1)
    assert faults.request({"on": "drive", "kind": "off", "hardware": True}, 1)["refused"].startswith("on: a drive of a")


def test_a_stop_ends_the_faults_of_the_link_and_those_that_are_planned() -> None:
    faults = requests(fault=[{"on": "link", "kind": "off", "at": 1.0}, {"on": "drive", "kind": "off", "at": 2.0}])
    faults.lift()
    assert faults.due == 2000
    faults.begin(3000)
    assert [each["on"] for each in faults.noted] == ["drive"]


class Wire:
    """A link that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.come: list[tuple[str, Any]] = []
        self.counts: Counter[str] = Counter()

    def send(self, topic: str, message: Any) -> None:  # noqa: ARG002
        self.sent.append(message)

    def receive(self, bound: int = 0) -> list[tuple[str, Any]]:  # noqa: ARG002
        come, self.come = self.come, []
        return come

    def due(self) -> None:
        return None


@dataclass
class Sent:
    """A message to a machine."""

    number: int
    final: bool = False


def test_a_link_to_hardware_holds_back_what_its_fault_says_but_never_the_end_of_a_run_or_a_stop() -> None:
    now, wire = [0], Wire()
    injector = Injector([Injection("link", "delayed", ("applied",), 10, math.inf, 1.0)])
    link = InjectedLink(cast(Any, wire), injector, lambda: now[0])
    link.send("applied", cast(Any, Sent(1)))
    assert [each.number for each in wire.sent] == [1]  # before the fault
    injector.k = 10
    link.send("applied", cast(Any, Sent(2)))
    assert (len(wire.sent), link.due()) == (1, 10**9)
    now[0] = 10**9
    link.receive()
    assert [each.number for each in wire.sent] == [1, 2]
    link.send("applied", cast(Any, Sent(3)))
    injector.lift_link()
    link.send("applied", cast(Any, Sent(4)))  # after a stop; what was held back before is lost
    now[0] = 10**10
    link.receive()
    assert [each.number for each in wire.sent] == [1, 2, 4]


def test_a_damaged_message_of_hardware_is_lost_and_counted_and_the_end_of_a_run_passes() -> None:
    wire = Wire()
    injector = Injector([Injection("link", "garbage", ("state", "applied"), 0, math.inf)])
    link = InjectedLink(cast(Any, wire), injector, lambda: 0)
    link.send("applied", cast(Any, Sent(1)))
    link.send("applied", cast(Any, Sent(2, final=True)))
    wire.come = [("state", Sent(3))]
    assert (link.receive(), [each.number for each in wire.sent], wire.counts) == ([], [2], {"damaged": 2})


def test_an_injected_fault_is_an_event_of_the_run() -> None:
    status = {"t": 1.0, "node": "plant", "src": 1, "lifecycle": "active", "fault": "", "safe_state": "nominal"}
    counts: list[dict[str, int]] = [{}, {"injected_sensor_wrong_sign": 1}, {"injected_sensor_wrong_sign": 1}]
    messages = [(k, "plant/status", status | {"counts": each}) for k, each in enumerate(counts)]
    events = [message for _, topic, message in Events().among(iter(messages)) if topic == EVENTS]
    told = [each for each in events if each["event"] == "injected"]
    assert told == [{"t": 1.0, "node": "plant", "event": "injected", "text": "sensor wrong_sign"}]


# the parts


def test_what_was_found_is_the_first_fault_after_the_injection_and_the_plant_s_before_the_launcher_s() -> None:
    told = {"on": "node", "kind": "kill", "names": ["controller"], "t": 2.0, "duration": None, "size": 0.0}
    early = {"name": "law", "t": 1.0, "node": "controller"}
    died, stale = {"name": "node_died", "t": 1.9, "node": "controller"}, {"name": "stale", "t": 2.5, "node": "plant"}
    other = told | {"names": ["target"]}
    assert (
        with_found([told], [died, stale])[0] | {"found": "stale", "after": 0.5} == with_found([told], [died, stale])[0]
    )
    assert with_found([told], [died])[0]["found"] == "node_died"
    assert with_found([other], [early])[0]["found"] is None


def test_signals_keep_their_array_while_nothing_fails() -> None:
    injector = Injector([Injection("drive", "off", ("a",), 5, 7)], {"drive": ("a", "b")})
    values = np.array([1.0, 2.0])
    assert injector.signals("drive", 4, values) is values
    assert injector.signals("drive", 5, values).tolist() == [0.0, 2.0]
    assert values.tolist() == [1.0, 2.0]
    assert injector.signals("sensor", 5, values) is values
    assert injector.signals("drive", 7, values) is values
