"""A controller on another computer: how late its commands act is measured, foreseen by the predictor, and counted.

The nodes are on one clock that the test moves; the network is the time that the test lets an answer take.
"""

from pathlib import Path
from random import Random
from statistics import median

import numpy as np
import pytest

from servonode.analysis.check import report
from servonode.closed_loop.hosts import is_networked
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.run_warnings import network_warnings
from servonode.nodes.answerer import link_periods
from servonode.nodes.network_latency import KEPT, NetworkLatency, StepTimes
from tests.helpers.stepped import MS, puck
from tests.nodes.test_link_latency import GOAL, LAMBDA, LOOPBACK, Driven

APART = 'hosts.plant="tcp://robot.local:7400"'
LAW = (*GOAL, LAMBDA, "plant.safety.command_timeout=0.2", "plant.safety.ramp=0.1", "run.duration=3")
REMOTE = (*LOOPBACK, "plant.device.timeout=0.3")


def driven(folder: Path, network_ms: float, *settings: str) -> Driven:
    return Driven(puck(folder, *LAW, *settings), round(network_ms * MS))


def largest(run: Driven) -> float:
    return float(np.abs(run.residuals(2.0)).max())


# what is measured


@pytest.mark.parametrize(("network_ms", "steps"), [(0.0, 0), (0.4, 0), (1.5, 1), (7.9, 7), (23.2, 23)])
@pytest.mark.parametrize("speed", [1.0, 0.5])
def test_a_simulated_machine_takes_an_answer_from_the_step_in_which_it_comes(
    network_ms: float, steps: int, speed: float, folder: Path
) -> None:
    run = driven(folder, network_ms / speed, APART, f"run.speed={speed}", "run.duration=1")
    assert run.states[0].latency == 0.0
    assert {state.latency for state in run.states if state.k > 50} == {steps / 1000}
    acting = {int(row[0]): tuple(row[-4:-2]) for row in run.node.record.rows}
    changes = [k % 10 for k in range(500, 900) if acting[k] != acting[k - 1]]
    assert set(changes) == {steps % 10}, "it is the step from which an answer acts"
    assert run.node.status.describe()["values"].get("link_latency", 0.0) == steps / 1000
    assert run.node.summary().get("link_latency_s", 0.0) == steps / 1000


@pytest.mark.parametrize(("delay", "network_ms", "steps"), [(3, 23.2, 0), (2, 23.2, 3), (1, 23.2, 13)])
def test_what_the_delay_of_the_launch_file_leaves_to_arrive_counts_for_nothing(
    delay: int, network_ms: float, steps: int, folder: Path
) -> None:
    run = driven(folder, network_ms, APART, f"controller.delay={delay}")
    assert run.states[-1].latency == steps / 1000


def test_the_network_comes_on_top_of_the_link_to_a_machine(folder: Path) -> None:
    run = driven(folder, 12.3, APART, *REMOTE, "plant.link.delay=0.005")
    assert abs(run.states[-1].latency - 0.0223) <= 0.001
    assert run.states[-1].latency - run.node.plant.remote.latency == pytest.approx(0.0123, abs=1e-5)


@pytest.mark.parametrize(
    "hosts", [(), (APART, 'hosts.controller="tcp://robot.local:7400"'), ('hosts.target="tcp://robot.local:7400"',)]
)
def test_on_one_computer_nothing_is_measured(hosts: tuple[str, ...], folder: Path) -> None:
    run = driven(folder, 5.5, *hosts, "controller.predictor=true", "run.duration=0.5")
    assert {state.latency for state in run.states} == {0.0}
    assert link_periods(run.node.closed_loop) == 0
    assert not is_networked(run.node.closed_loop.launch)


def test_it_is_the_median_of_the_newest_answers() -> None:
    times, random, taken = StepTimes(1e6), Random(5), list[int]()
    found = NetworkLatency(1, 10, times, lambda: 0, simulated=True)
    assert found.steps == 0.0
    for instant in range(400):
        late = random.choice([3, 4, 5, 400]) if instant < 300 else 7
        taken.append(late)
        found.answered(instant, (instant + 1) * 10 + late)
        newest = taken[-KEPT:]
        if len(newest) % 2:
            assert found.steps == median(newest)
    assert found.steps == 7


# what the predictor makes of it


@pytest.mark.parametrize("network_ms", [10.5, 20.2, 30.7])
def test_with_the_predictor_the_network_costs_nothing(network_ms: float, folder: Path) -> None:
    """The instants at which the law samples are then those at which its inputs begin, as without a network."""
    direct = largest(driven(folder, 0.0))
    without = largest(driven(folder, network_ms, APART))
    foreseen = largest(driven(folder, network_ms, APART, "controller.predictor=true"))
    assert direct < 3e-4
    assert without > 3 * direct
    assert abs(foreseen - direct) < 1e-6


@pytest.mark.parametrize("network_ms", [4.5, 17.5])
def test_a_part_of_a_period_is_foreseen_too(network_ms: float, folder: Path) -> None:
    direct = largest(driven(folder, 0.0))
    without = largest(driven(folder, network_ms, APART))
    foreseen = largest(driven(folder, network_ms, APART, "controller.predictor=true"))
    assert foreseen < 1.3 * direct  # sampled within a period rather than at its begin
    assert without > 1.5 * foreseen


def test_network_link_and_delay_are_foreseen_together(folder: Path) -> None:
    settings = (APART, *REMOTE, "plant.link.delay=0.005", "controller.delay=1")
    foreseen = largest(driven(folder, 20.2, *settings, "controller.predictor=true"))
    assert foreseen < 4e-4
    assert largest(driven(folder, 20.2, *settings)) > 5 * foreseen


# what check and the run say


def margins(folder: Path, *settings: str) -> tuple[float, float]:
    """The delay that a check counts [control periods], and the limit of lambda T that goes with it."""
    numbers = report(puck(folder, *GOAL, LAMBDA, *settings)).numbers
    return numbers["delay"], numbers["margins"]["x"]["limit"]


def test_check_counts_the_stated_delay_of_the_network(folder: Path) -> None:
    assert margins(folder, APART, "hosts.delay=0.01") == margins(folder, "controller.delay=1")
    assert margins(folder, APART, "hosts.delay=0.025")[0] == 2.5
    assert margins(folder, APART, "hosts.delay=0.005", "run.speed=2")[0] == 1.0, "wall clock"
    assert margins(folder, APART, "hosts.delay=0.015", "controller.delay=1")[0] == 1.5, "not both"
    assert margins(folder, APART, "hosts.delay=0.015", "controller.delay=2")[0] == 2.0
    assert margins(folder, APART, "hosts.delay=0.02", "controller.predictor=true")[0] == 0.0
    assert margins(folder, APART, "hosts.delay=0.02", 'run.mode="lockstep"')[0] == 0.0


def test_too_slow_a_network_is_refused_and_auto_takes_less(folder: Path) -> None:
    fast = "controller.gains={lambda = 40.0}"
    assert report(puck(folder, *GOAL, fast, APART, "hosts.delay=0.001")).verdict == "yes"
    with pytest.raises(LaunchError, match=r"lambda T = 0\.4 at a period of 0\.01 s and a delay of 2 periods, limit"):
        puck(folder, *GOAL, fast, APART, "hosts.delay=0.02")
    auto = 'controller.gains={lambda = "auto"}'
    rates = [
        puck(folder, *GOAL, auto, APART, *given).control.gains.rates[0]  # type: ignore[union-attr]
        for given in ((), ("hosts.delay=0.02",))
    ]
    assert rates[1] < rates[0] / 2


def hosts_findings(folder: Path, *settings: str) -> list[str]:
    return [each.text for each in report(puck(folder, *GOAL, LAMBDA, *settings)).findings if each.subject == "hosts"]


def test_a_delay_that_is_not_stated_is_a_warning(folder: Path) -> None:
    (text,) = hosts_findings(folder, APART)
    assert text == (
        "states and commands cross the network, for how long is not stated, and no margin counts it; give hosts.delay: "
        "in a run servonode status shows the round trip"
    )
    for settings in ((APART, "hosts.delay=0.01"), (APART, "controller.predictor=true"), (APART, 'run.mode="lockstep"')):
        assert hosts_findings(folder, *settings) == []


def test_a_run_that_needs_longer_than_stated_warns(folder: Path) -> None:
    run = driven(folder, 23.2, APART, "hosts.delay=0.02", "run.duration=1")
    trips = run.node.summary()["round_trip_s"]
    (warning,) = network_warnings(run.node.closed_loop, trips)
    assert (warning.name, warning.t) == ("network", None)
    assert str(warning) == (
        "one of a hundred commands came 23.2 ms after its state or later (median 23.2 ms), but hosts.delay is 20 ms: "
        "state the longer time, and check again"
    )
    for settings in ((APART, "hosts.delay=0.03"), (APART,), (APART, "hosts.delay=0.02", 'run.mode="lockstep"')):
        assert network_warnings(puck(folder, *LAW, *settings), trips) == []


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            ('hosts.target="tcp://robot.local:7400"', "hosts.delay=0.01"),
            "plant and controller are on one computer, so that no network is between them; leave it out",
        ),
        ((APART, "hosts.delay=2"), "200 control periods from a state to its command are too many; give at most 100 of"),
    ],
)
def test_what_delay_cannot_be_is_refused(settings: tuple[str, ...], text: str, folder: Path) -> None:
    with pytest.raises(LaunchError) as refused:
        puck(folder, *LAW, *settings)
    assert (refused.value.section, refused.value.key) == ("hosts", "delay")
    assert refused.value.text.startswith(text)
