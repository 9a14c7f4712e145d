"""A promise about speed, which only a busy processor shows."""

from tests.helpers.runs import START_S, Runs

LAUNCH = "trailer_pursuit"


def test_promise_09_a_speed_that_cannot_be_kept_is_a_fault(runs: Runs) -> None:
    # a million steps a second of plant time, twenty times as fast as the wall: more than a core can do
    settings = ("run.speed=20", "plant.step=1e-6", "plant.publish_every=10000", "run.duration=2000")
    run = runs.start(LAUNCH, *settings, "plant.safety.lateness_limit=0.2", words=("--every", "1000000"))
    run.ends_with(1, START_S)
    overrun = run.fault("overrun")
    assert "behind the clock: a step takes longer to compute than it lasts; lower run.speed" in overrun["text"]
    assert run.printed["overruns"] > 0
    assert [each["name"] for each in run.printed["faults"]] == ["overrun"]
