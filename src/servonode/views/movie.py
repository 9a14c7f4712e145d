"""A movie of a finished run, as mp4 or gif: the animation of the live window, one frame after the other."""

import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError, installing
from servonode.record.files import replaced_file
from servonode.record.run import Run

ENDINGS = (".mp4", ".gif")
FPS = 30.0
LONGEST, MEANT = 25.0, 20.0  # s of a movie at the launch file's own speed; of one whose speed is chosen here
HELD = 2.0  # s for which the last picture of a run with a fault stands
DPI = 100  # pixels per in
SIZE = {".mp4": (12.8, 7.68), ".gif": (8.0, 4.8)}  # in; a gif stands in a page, where its words must be readable
TICK = 0.01  # s; the unit of time of a gif
INSTALL = f"{installing('movie')}, which brings it"


class NoMovie(ServonodeError):
    """A movie that cannot be made; the text says why and what to do."""


@dataclass(frozen=True)
class Plan:
    """A movie that can be made. fps: frames per second of the movie; speed: plant seconds per second of it.

    panels: a panel for each "NAME,NAME"; those of the report picture without any.
    """

    file: Path
    fps: float
    speed: float
    panels: tuple[str, ...] = ()

    def times(self, end: float) -> Array:
        """The plant times of the frames [s], from 0 to the end of what is shown."""
        step = self.speed / self.fps
        inner = np.arange(math.ceil(end / step - 1e-9)) * step
        return np.append(inner, end)


def plan(
    file: Path, fps: float | None, speed: float | None, closed_loop: ClosedLoop, panels: Sequence[str] = ()
) -> Plan:  # fmt: skip
    """Say how a run would be filmed, before it is simulated.

    Raises:
        FieldError: a name in `panels` is no column of the run.
        NoMovie: the ending is unknown, the folder is not there, or nothing that writes such a file is installed.
    """
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise NoMovie(f"{file}: no movie ends like this; choose {' or '.join(ENDINGS)}")
    if file.is_dir():
        raise NoMovie(f"{file} is a folder; give the name of a file")
    if not (file.parent.is_dir() and os.access(file.parent, os.W_OK)):
        raise NoMovie(f"{file}: the folder {file.parent} is not there or cannot be written; name another")
    if ending == ".mp4" and not ffmpeg():
        raise NoMovie(f"{file}: an mp4 needs ffmpeg, which is not there; {INSTALL}, or take {file.with_suffix('.gif')}")
    rate = fps or FPS
    if ending == ".gif":
        rate = 1 / (TICK * max(2, round(1 / (TICK * rate))))  # 20 ms is the shortest that viewers respect
    from servonode.views.panel_specs import chosen_panels

    chosen_panels(closed_loop, panels, timing=False)
    seconds, usual = closed_loop.launch.duration_ns / 1e9, closed_loop.launch.run.speed
    usual = usual if seconds <= LONGEST * usual else seconds / MEANT  # a larger one where the movie would become long
    return Plan(file, rate, speed or usual, tuple(panels))


def ffmpeg() -> str | None:
    """The path of ffmpeg: that of the library imageio-ffmpeg, else one on the path; None: there is neither."""
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):  # RuntimeError: an installation without the program
        return shutil.which("ffmpeg")


def write_movie(run: Run, name: str, plan: Plan) -> int:
    """Film a run; the number of frames. The file appears when it is complete, or not at all.

    Raises:
        NoMovie: the encoder failed.
    """
    import matplotlib as mpl

    from servonode.views.sheet import STYLE

    with mpl.rc_context(STYLE):
        reel = Reel(run, name, SIZE[plan.file.suffix.lower()], plan.panels)
        times = plan.times(reel.end)
        held = round(HELD * plan.fps) if run.fault else 0
        is_gif = plan.file.suffix.lower() == ".gif"
        write = partial(_write_gif, palette=_palette(reel)) if is_gif else _write_mp4
        hidden = f".{plan.file.stem}.{os.getpid()}{plan.file.suffix.lower()}"  # ffmpeg goes by its ending
        with replaced_file(plan.file, hidden) as part:
            write(part, plan.fps, reel.size, progress(reel, [*times, *[times[-1]] * held], plan.file))
    return len(times) + held


class Reel:
    """The pictures of a run, by plant time."""

    def __init__(self, run: Run, name: str, size: tuple[float, float], panels: Sequence[str] = ()) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        from servonode.views.animation import Animation
        from servonode.views.panels import columns_of

        self.name, self.fault, self.end = name, run.fault, float(run.t[-1])  # plant time [s] of the last picture
        self.end = min(self.end, float(run.fault["t"])) if run.fault else self.end
        shown = max(int(np.searchsorted(run.t, self.end + 1e-9, side="right")), 1)
        self.t = run.t[:shown]
        self.columns = {column: values[:shown] for column, values in columns_of(run).items()}
        figure = Figure(figsize=size, dpi=DPI)
        self.canvas = FigureCanvasAgg(figure)
        self.picture = Animation(figure, run.closed_loop, panels)
        self.picture.fix_limits(self.t, self.columns)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height [pixels]."""
        return self.canvas.get_width_height()

    def frame(self, t: float) -> npt.NDArray[np.uint8]:
        """The picture at a plant time, (height, width, 4); the fault stands in it from its time on."""
        rows = max(int(np.searchsorted(self.t, t + 1e-9, side="right")), 1)
        text, fault = f"{self.name}   t = {t:.2f} s", self.fault
        if fault and t >= self.end - 1e-9:
            self.picture.title(f"{text}   FAULT {fault['name']}: {fault['text']}", alarm=True)
        else:
            self.picture.title(text)
        self.picture.show(self.t[:rows], {name: values[:rows] for name, values in self.columns.items()})
        return np.asarray(self.canvas.buffer_rgba())  # type: ignore[no-untyped-call]


def progress(reel: Reel, times: list[float], file: Path) -> Iterator[bytes]:
    """The frames as bytes, one after the other, with a bar on a terminal and one line elsewhere."""
    if not sys.stderr.isatty():
        click.echo(f"servonode: {file}: {len(times)} frames", err=True)
        yield from (reel.frame(t).tobytes() for t in times)
        return
    with click.progressbar(times, label=str(file), file=sys.stderr) as bar:
        yield from (reel.frame(t).tobytes() for t in bar)


# what writes the file


def _write_mp4(part: Path, fps: float, size: tuple[int, int], frames: Iterator[bytes]) -> None:
    """An mp4 by ffmpeg.

    Raises:
        NoMovie: it ended with an error.
    """
    raw = f"-f rawvideo -pix_fmt rgba -s {size[0]}x{size[1]} -r {fps:.6g} -i -"
    coded = "-an -c:v libx264 -pix_fmt yuv420p -crf 20 -movflags +faststart"
    command = [str(ffmpeg()), "-y", "-loglevel", "error", *raw.split(), *coded.split(), str(part)]
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors) as process:
            assert process.stdin is not None
            try:
                with suppress(BrokenPipeError):  # it has ended; its text says why
                    for frame in frames:
                        process.stdin.write(frame)
                    process.stdin.close()
            except BaseException:  # an interruption too: no other code would end the process
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            text = errors.read().decode(errors="replace").strip().splitlines()
            raise NoMovie(f"ffmpeg ended with {process.returncode}: {text[-1] if text else 'it does not say why'}")


def _palette(reel: Reel) -> Any:
    """The colours of the last picture, which has all that the others have, as a small image of pillow."""
    from PIL import Image

    picture = Image.fromarray(reel.frame(reel.end)).convert("RGB")
    return picture.quantize(254, dither=Image.Dither.NONE)


def _write_gif(part: Path, fps: float, size: tuple[int, int], frames: Iterator[bytes], palette: Any) -> None:
    """A gif by pillow, which keeps only what changes from frame to frame."""
    from PIL import Image

    def pictures() -> Iterator[Any]:
        for frame in frames:
            image = Image.frombytes("RGBA", size, frame).convert("RGB")
            yield image.quantize(palette=palette, dither=Image.Dither.NONE)

    rest = pictures()
    with part.open("w+b") as file:
        duration = round(1000 / fps)
        next(rest).save(file, format="GIF", save_all=True, append_images=rest, duration=duration, loop=0, disposal=1)
