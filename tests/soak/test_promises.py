"""A promise about speed, and that all drivers pass the same tests."""

from types import ModuleType

from tests.helpers.runs import START_S, Runs
from tests.soak import test_external, test_loopback, test_simulated

LAUNCH = "trailer_pursuit"


def names_in(module: ModuleType) -> set[str]:
    """The names of the tests in the module's one suite."""
    suites = [each for name, each in vars(module).items() if name.startswith("Test")]
    assert len(suites) == 1
    return {name for name in vars(suites[0]) if name.startswith("test_")}


def test_promise_14_all_drivers_pass_the_same_tests() -> None:
    simulated, loopback, external = map(names_in, (test_simulated, test_loopback, test_external))
    assert simulated == loopback == external
    kept = {int(name.split("_")[2]) for name in simulated}
    assert kept == {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 17, 22, 23, 24, 25}


# 9


def test_promise_09_a_speed_that_cannot_be_kept_is_a_fault(runs: Runs) -> None:
    # a million steps a second of plant time, twenty times as fast as the wall: more than a core can do
    settings = ("run.speed=20", "plant.step=1e-6", "plant.publish_every=10000", "run.duration=2000")
    run = runs.start(LAUNCH, *settings, "plant.safety.lateness_limit=0.2", words=("--every", "1000000"))
    run.ends_with(1, START_S)
    overrun = run.fault("overrun")
    assert "behind the clock: a step takes longer to compute than it lasts; lower run.speed" in overrun["text"]
    assert run.printed["overruns"] > 0
    assert [each["name"] for each in run.printed["faults"]] == ["overrun"]
