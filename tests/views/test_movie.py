"""Movies of runs: what is in the file, and what is refused before anything is simulated."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import servonode
from servonode.cli.main import main
from servonode.record.run import Run
from servonode.views import movie
from servonode.views.movie import NoMovie, plan, write_movie

needs_ffmpeg = pytest.mark.skipif(movie.ffmpeg() is None, reason="neither imageio-ffmpeg nor ffmpeg is installed")


@pytest.fixture(scope="module")
def coasting() -> Run:
    return servonode.simulate("trailer_coast", run__duration=0.5)


def frames(file: Path) -> tuple[list[np.ndarray[Any, Any]], int]:
    """The pictures of a gif, and how long it lasts [ms]."""
    pictures, lasts = [], 0
    with Image.open(file) as image:
        for i in range(getattr(image, "n_frames", 1)):
            image.seek(i)
            lasts += image.info["duration"]
            pictures.append(np.asarray(image.convert("RGB")))
    return pictures, lasts


# what is in the file


def test_gif_has_frames_size_and_length_of_its_plan(coasting: Run, tmp_path: Path) -> None:
    file = tmp_path / "coast.gif"
    planned = plan(file, 20, 0.5, coasting.closed_loop)
    written = write_movie(coasting, "coast", planned)
    pictures, lasts = frames(file)
    assert written == 21  # 0.5 s at half speed and 20 frames a second, and the first
    assert len(pictures) == written
    assert lasts == 21 * 50
    assert pictures[0].shape == (480, 800, 3)
    changes = [float(np.abs(a.astype(int) - b).mean()) for a, b in pairwise(pictures)]
    assert min(changes) > 0
    assert max(changes) < 5  # limits and colours stay where they are
    assert [each.name for each in tmp_path.iterdir()] == ["coast.gif"]


@pytest.mark.slow
def test_an_mp4_is_h264_that_every_player_knows(coasting: Run, tmp_path: Path) -> None:
    reader = pytest.importorskip("imageio_ffmpeg", reason="imageio-ffmpeg is not installed")
    file = tmp_path / "coast.mp4"
    planned = plan(file, 30, 0.5, coasting.closed_loop)
    written = write_movie(coasting, "coast", planned)
    stream = next(reader.read_frames(str(file)))
    assert (stream["codec"], stream["pix_fmt"].partition("(")[0]) == ("h264", "yuv420p")
    assert (stream["source_size"], stream["fps"]) == ((1280, 768), 30.0)
    assert written == 31
    assert reader.count_frames_and_secs(str(file)) == (written, pytest.approx(31 / 30, abs=0.01))


def test_the_frames_are_those_of_their_times(coasting: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from servonode.views.animation import Animation

    shown, show = [], Animation.show

    def noted(self: Animation, t: Any, columns: Any) -> bool:
        shown.append((t[-1], columns["X"][-1]))
        return show(self, t, columns)

    monkeypatch.setattr(Animation, "show", noted)
    planned = plan(tmp_path / "coast.gif", 10, 1.0, coasting.closed_loop)
    reel = movie.Reel(coasting, "coast", (6.4, 3.84))
    for t in planned.times(reel.end):
        reel.frame(t)
    times, places = np.array(shown).T
    np.testing.assert_allclose(times, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], atol=1e-12)
    np.testing.assert_array_equal(places, coasting.state["X"][np.searchsorted(coasting.t, times - 1e-9)])


@pytest.mark.slow
def test_the_movie_of_a_fault_ends_at_it_and_shows_its_text(tmp_path: Path) -> None:
    fallen = servonode.simulate("sphero_runs_over")
    assert fallen.fault is not None
    file = tmp_path / "over.gif"
    planned = plan(file, 10, 0.5, fallen.closed_loop)
    reel = movie.Reel(fallen, "over", (6.4, 3.84))
    assert reel.end == fallen.fault["t"]
    assert reel.end < fallen.t[-1]
    red = [
        int((np.abs(reel.frame(t)[:60, :, :3].astype(int) - (209, 73, 91)).sum(axis=2) < 30).sum())
        for t in (0.0, reel.end)
    ]
    assert red[0] == 0
    assert red[1] > 50
    written = write_movie(fallen, "over", planned)
    pictures, lasts = frames(file)
    assert lasts == pytest.approx(written * 100)
    assert lasts >= 2000 + 1000 * reel.end / 0.5 - 100  # it stands two seconds
    assert len(pictures) <= written  # pictures that are alike may be one


@pytest.mark.parametrize("name", ["hoop_rolls", "ball_circle"])
def test_other_machines_can_be_filmed(name: str, tmp_path: Path) -> None:
    run = servonode.simulate(name, run__duration=0.2)
    file = tmp_path / "short.gif"
    assert write_movie(run, name, plan(file, 10, 1.0, run.closed_loop)) == 3
    assert len(frames(file)[0]) == 3


# how fast, how many


def test_the_speed_is_the_launch_files_unless_that_takes_long() -> None:
    for name, speed in (("trailer_coast", 2.0), ("trailer_pursuit", 6.0), ("trailer_pursuit_lockstep", 125.664 / 20)):
        assert plan(Path("a.gif"), None, None, servonode.load(name).closed_loop).speed == pytest.approx(speed)


@pytest.mark.parametrize(("asked", "given"), [(30.0, 100 / 3), (None, 100 / 3), (10.0, 10.0), (60.0, 50.0)])
def test_a_gif_takes_the_nearest_rate_that_it_can_say(asked: float | None, given: float, coasting: Run) -> None:
    assert plan(Path("a.gif"), asked, None, coasting.closed_loop).fps == pytest.approx(given)


def test_the_last_frame_is_the_end() -> None:
    np.testing.assert_allclose(movie.Plan(Path("a.gif"), 10, 1.0).times(0.35), [0.0, 0.1, 0.2, 0.3, 0.35])
    np.testing.assert_allclose(movie.Plan(Path("a.gif"), 10, 1.0).times(0.3), [0.0, 0.1, 0.2, 0.3])


# nothing half done


@pytest.mark.parametrize("ending", [pytest.param("mp4", marks=needs_ffmpeg), "gif"])
def test_a_movie_that_breaks_off_leaves_what_was_there(
    coasting: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    file = tmp_path / f"coast.{ending}"
    file.write_text("the old one")
    whole = movie.Reel.frame

    def breaks(self: movie.Reel, t: float) -> Any:
        if 0.2 < t < 0.4:
            raise KeyboardInterrupt
        return whole(self, t)

    monkeypatch.setattr(movie.Reel, "frame", breaks)
    with pytest.raises(KeyboardInterrupt):
        write_movie(coasting, "coast", plan(file, 20, 1.0, coasting.closed_loop))
    assert file.read_text() == "the old one"
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_an_encoder_that_fails_says_why_and_leaves_no_file(
    coasting: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tmp_path / "encoder"
    encoder.write_text("#!/bin/sh\necho Unknown encoder >&2\nexit 3\n")
    encoder.chmod(0o755)
    monkeypatch.setattr(movie, "ffmpeg", lambda: str(encoder))
    file = tmp_path / "coast.mp4"
    with pytest.raises(NoMovie, match="ffmpeg ended with 3: Unknown encoder"):
        write_movie(coasting, "coast", plan(file, 20, 1.0, coasting.closed_loop))
    assert [each.name for each in tmp_path.iterdir()] == ["encoder"]


# what is refused, and the command line


@pytest.fixture
def never_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    from servonode.simulation import simulate

    def refuse(*_: Any) -> None:
        raise AssertionError("it was simulated")

    monkeypatch.setattr(simulate, "simulate_fused", refuse)


def refused(*words: str) -> str:
    result = CliRunner().invoke(main, ["simulate", "trailer_coast", *words])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.usefixtures("never_simulated")
def test_what_cannot_be_filmed_is_refused_before_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder.gif").mkdir()
    for file, text in (
        ("a.avi", "no movie ends like this; choose .mp4 or .gif"),
        ("no/a.gif", "is not there"),
        ("folder.gif", "is a folder"),
    ):
        assert text in refused("--movie", str(tmp_path / file))
    for option in ("--fps", "--speed"):
        assert "give --movie" in refused(option, "2")
    monkeypatch.setattr(movie, "ffmpeg", lambda: None)
    text = refused("--movie", str(tmp_path / "a.mp4"))
    for part in ("an mp4 needs ffmpeg", 'pip install "servonode[movie]"', "a.gif"):
        assert part in text


def test_simulate_movie_prints_one_line_without_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "coast.gif"
    words = ["--set", "run.duration=0.3", "--movie", str(file), "--fps", "10", "--speed", "1"]
    result = CliRunner().invoke(main, ["simulate", "trailer_coast", *words])
    assert result.exit_code == 0, result.output
    (line,) = [each for each in result.stderr.splitlines() if "gif" in each]
    assert line == f"servonode: {file}: 4 frames"
    assert "(4 frames, 1 plant seconds per second)" in result.stdout
    assert len(frames(file)[0]) == 4
