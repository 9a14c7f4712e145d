"""Regions that are known in closed form, outcomes with their reasons, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.arrays import Array
from servonode.closed_loop.variation import Variation
from servonode.errors import StatementError
from servonode.mechanics import Model, coordinate, input_
from servonode.wings.explore.sweeps import chunk, outcomes
from servonode.wings.explore.sweeps.outcomes import REACHED
from tests.helpers.point_masses import launch
from tests.helpers.refusals import command

# x'' = 4 x + F with |F| <= 2. At the rate omega = 2 the law feeds back z = x + x'/2 alone, F = -8 z, and z' = 2 z + F/2
# ends at 0 exactly where |z| < 2 / 4, whatever the gain: no bounded force brings back more.
UNSTABLE = launch("x", 6.0, 2.0, period=0.005, k=4.0, plant={"actuator": {"limit": 2.0}})


@pytest.mark.slow
def test_region_of_an_unstable_mass_with_a_limited_force_is_a_band() -> None:
    found = servonode.load(UNSTABLE).region({"plant.initial.x": (-1.0, 1.0), "plant.initial.x_dot": (-2.0, 2.0)})
    assert found.shares[REACHED] == pytest.approx(1 - 1.5**2 / 4, abs=0.01)  # the square less two triangles
    low, high = found.interval
    assert low < 1 - 1.5**2 / 4 < high < low + 0.03
    z = np.abs(found.values @ [1.0, 0.5])
    reached = np.array([each == REACHED for each in found.outcomes])
    assert reached[z < 0.48].all()
    assert not reached[z > 0.52].any()
    assert set(found.kinds) == {REACHED, "goal missed; F at the limit"}
    assert len(found.values) < 0.2 * 129**2


def test_a_range_of_one_key_is_bisected() -> None:
    found = servonode.load(UNSTABLE).region({"plant.initial.x": (0.0, 1.0)}, points=5)
    assert found.interval[0] <= found.shares[REACHED] <= found.interval[1] == pytest.approx(0.5, abs=0.02)
    assert len(found.values) == 5 + 5


def braked_cart() -> Model:
    """A cart of 2 kg on which at most 10 N act: it stops from a speed v within v^2/10."""
    x, force = coordinate("x", "place", "m"), input_("F", "force", "N", limit=10.0)
    return Model("cart", "a cart", coordinates=(x,), kinetic=x.rate**2, inputs={force: x.rate})


def test_all_is_kept_from_where_the_inputs_can_stop_whether_or_not_the_goal_is_reached() -> None:
    stated: Any = {"residuals": {"goal": "x - 2"}, "gains": {"lambda": 5.0}, "duration": 2.0}
    wall = {"wall": {"expression": "1 - x", "brake": 4.9}}
    loop = servonode.load(braked_cart, keep=wall, controller__limits="keep", **stated)
    over = {"plant.initial.x": (0.0, 1.0), "plant.initial.x_dot": (0.0, 4.0)}
    found = loop.region(over, require=["kept"], points=5)
    assert found.kinds == ("keeps all", "keep wall is violated; F at the limit")
    room = 1.0 - found.values[:, 0] - found.values[:, 1] ** 2 / 10
    kept = np.array([each == "keeps all" for each in found.outcomes])
    assert kept[room > 0.03].all()
    assert not kept[room < -0.03].any()
    assert [label for label, _ in found.table()[1]][3:5] == ["keeps all", "not kept"]
    assert loop.region({"plant.initial.x": (0.0, 0.9)}, points=3).kinds[1] == "goal missed; F at the limit"
    with pytest.raises(StatementError, match="keeps nothing, so that 'kept' asks for nothing; give"):
        servonode.load(braked_cart, **stated).region(over, require=["kept"])


def test_three_keys_are_tried_at_random_and_the_interval_has_the_share() -> None:
    over = {"plant.initial.x": (-1.0, 1.0), "plant.initial.x_dot": (-2.0, 2.0), "plant.parameters.m": (1.0, 1.0001)}
    found = servonode.load(UNSTABLE).region(over, runs=300)
    assert found.grid is None
    assert found.interval[0] < 1 - 1.5**2 / 4 < found.interval[1]
    again = servonode.load(UNSTABLE).region(over, runs=300)
    assert np.array_equal(found.values, again.values)


def test_a_requirement_is_named_as_it_is_stated() -> None:
    loop = servonode.load(launch("x", 5.0, 3.0, period=0.01))
    plain = loop.region({"plant.initial.x": (0.0, 2.0)}, require=["max(abs(F)) < 9"], points=5)
    assert plain.kinds == (REACHED, "max(abs(F)) ≥ 9")
    assert plain.shares[REACHED] == pytest.approx(0.5, abs=0.01)  # the first force is -9 x
    named = loop.region({"plant.initial.x": (0.0, 2.0)}, require=["too strong: max(abs(F)) < 9"], points=5)
    assert named.kinds == (REACHED, "too strong")


def test_a_run_that_is_too_short_is_still_converging() -> None:
    found = servonode.load(launch("x", 2.0, 1.0, period=0.01)).region({"plant.initial.x": (1.0, 2.0)}, points=3)
    assert found.kinds == (REACHED, "goal still converging")
    assert found.shares[REACHED] == 0.0


@pytest.mark.slow
def test_faults_and_refused_starts_are_outcomes_with_their_words() -> None:
    loop = servonode.load("snowboarder_straight", plant__actuator__limit={"M_sigma": 300.0}, run__duration=3.0)
    found = loop.region({"plant.initial.sigma": (-1.2, 1.2), "plant.initial.phi0": (-1.5, 1.5)}, points=4)
    assert {"fallen; M_sigma at the limit", "the heading has left (-1.4, 1.4)"} <= set(found.kinds)


@pytest.mark.parametrize("over", [{"plant.initial.x": (0.0, 1.0)}, dict.fromkeys("abc", (0.0, 1.0))])
def test_a_picture_has_axes_with_units_and_all_outcomes(over: dict[str, tuple[float, float]]) -> None:
    keys = ("plant.initial.x", "plant.initial.x_dot", "plant.parameters.m")
    ranges = dict(zip(keys, ((0.0, 1.0), (0.0, 1.0), (0.5, 2.0)), strict=False)) if len(over) > 1 else over
    figure = servonode.load(UNSTABLE).region(ranges, runs=None if len(over) == 1 else 60, points=None).plot()
    figure.canvas.draw()
    labels = [axis.get_xlabel() for axis in figure.axes if axis.get_xlabel()]
    assert labels[0] == "initial place $x$ [m]"
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend[0].startswith(REACHED)
    assert legend[1].startswith("goal missed; F at the limit")


WRONG = {
    "plant.initial.ph=0:1": "did you mean phi? ",
    "plant.initial.phi=1:1": "is an empty range; give two finite numbers LOW:HIGH",
    "plant.initial.phi=1": "is not a range; give KEY=LOW:HIGH",
    "plant.initial.phi=a:1": "'a' is not a number",
    "controller.damping=0:1": "is part of the compiled law, which is derived",
    "target.x=nan:1": "is an empty range",
}


@pytest.mark.parametrize(("over", "text"), WRONG.items())
def test_a_range_that_cannot_be_is_one_line_and_exit_code_2(over: str, text: str) -> None:
    result = command("region", "trailer_look_ahead", "--over", over)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert text in result.stderr


def test_many_runs_are_judged_in_slices_with_the_same_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, sizes = servonode.load(UNSTABLE), list[int]()

    def run_chunk(variation: Variation, values: Array, *more: Any) -> chunk.Chunk:
        sizes.append(len(values))
        return chunk.run_chunk(variation, values, *more)

    whole = loop.region({"plant.initial.x": (-1.0, 1.0)}, runs=20)
    monkeypatch.setattr(outcomes, "run_chunk", run_chunk)
    monkeypatch.setattr(outcomes, "SLICE", 8)
    assert loop.region({"plant.initial.x": (-1.0, 1.0)}, runs=20).outcomes == whole.outcomes
    assert len(set(whole.outcomes)) > 1
    assert sizes == [8, 8, 4]


@pytest.mark.parametrize("question", ["region", "tune"])
def test_a_duration_that_varies_is_refused_where_runs_are_judged(question: str) -> None:
    result = command(question, "trailer_look_ahead", "--over", "run.duration=0.1:20")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "servonode: run.duration is no key of runs that are judged: whether a goal is reached is asked of one "
        "duration; load the launch file with another one, or vary it by servonode sweep\n"
    )


def test_without_a_goal_something_must_be_required() -> None:
    loop = servonode.load("snowboarder_falls")
    found = loop.region({"plant.initial.sigma": (0.0, 0.1)}, require=["max(abs(sigma)) < 1"], points=3)
    assert found.kinds[1:] == ("fallen",)


def test_the_command_prints_json_and_writes_its_picture(tmp_path: Path) -> None:
    words = ("--set", "run.duration=5", "--over", "plant.initial.phi=-1:1", "--points", "3", "--json")
    result = command("region", "trailer_look_ahead", *words, "--output", str(tmp_path / "region.png"))
    printed = json.loads(result.stdout)
    assert (result.exit_code, printed["over"][0]["unit"], len(printed["runs"])) == (0, "rad", 3)
    assert (tmp_path / "region.png").read_bytes().startswith(b"\x89PNG")
