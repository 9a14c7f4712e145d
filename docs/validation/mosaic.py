"""Make the animation of the README, docs/images/mosaic.gif: four machines beside each other.

python docs/validation/mosaic.py
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from pictures import IMAGES, ROOT
from PIL import Image

import servonode
from servonode.record.run import Run
from servonode.views.animation import Animation
from servonode.views.panels import columns_of

EXAMPLES = ROOT / "examples"
# what is run, what stands above it, which view, the plant times [s] of the first and last frame
TILES = (
    ("trailer_reverse_circle", "backs its trailer onto a circle", 0, (0.0, 52.0)),
    (str(EXAMPLES / "crane" / "crane.toml"), "carries a load over an obstacle", 0, (0.0, 4.5)),
    ("snowboarder_carve", "leans into the turns of a slalom, seen from behind", 1, (0.0, 7.2)),
    (str(EXAMPLES / "quadrotor" / "quadrotor.toml"), "flies a figure of eight", 0, (0.0, 8.0)),
)
SECONDS, FPS, INCHES, DPI = 8.0, 12, (4.0, 2.7), 100
ROOM = (0.02, 0.02, 0.96, 0.84)  # of a tile, for the machine


class Tile:
    """A view of a run, without panels."""

    def __init__(self, run: Run, text: str, view: int, times: tuple[float, float]) -> None:
        self.t, self.columns, self.text, self.times = run.t, columns_of(run), text, times
        loop, figure = run.closed_loop, Figure(figsize=INCHES, dpi=DPI)
        self.picture = Animation(figure, loop, views=loop.views[view : view + 1])
        end = self._rows(times[1])
        self.picture.fix_limits(self.t[:end], {name: values[:end] for name, values in self.columns.items()})
        (part,) = self.picture.views
        part.axis.set_position(ROOM)
        part.axis.set_axis_off()
        part.fit_words()

    def _rows(self, t: float) -> int:
        return max(int(np.searchsorted(self.t, t + 1e-9, side="right")), 1)

    def frame(self, share: float) -> Image.Image:
        """The picture at a share of its time."""
        first, last = self.times
        rows = self._rows(first + share * (last - first))
        self.picture.title(self.text)
        _hide_words(self.picture.views[0].axis)
        self.picture.show(self.t[:rows], {name: values[:rows] for name, values in self.columns.items()})
        return Image.fromarray(np.asarray(self.picture.figure.canvas.buffer_rgba())).convert("RGB")


def _hide_words(axis: Axes) -> None:
    """Hide all but the machine and its paths: the picture is small, and a line above says what it shows."""
    words = [axis.get_legend(), *axis.texts, *(each for each in axis.get_children() if isinstance(each, Text))]
    for each in [*words, *(line for line in axis.lines if not line.get_clip_on())]:
        if each is not None:
            each.set_visible(False)


def main() -> None:
    tiles = [Tile(servonode.simulate(file), *how) for file, *how in TILES]
    count = round(SECONDS * FPS)
    # it begins in the middle of the motion, which is what a preview shows
    shares = np.roll(np.linspace(0.0, 1.0, count), -count // 2)
    frames = [side_by_side([tile.frame(share) for tile in tiles]) for share in shares]
    palette = frames[count // 2 - 1].quantize(128, dither=Image.Dither.NONE)
    first, *others = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in frames]
    file = IMAGES / "mosaic.gif"
    first.save(file, save_all=True, append_images=others, duration=round(1000 / FPS), loop=0, optimize=True)


def side_by_side(pictures: list[Image.Image]) -> Image.Image:
    """Four pictures of one size in two rows."""
    width, height = pictures[0].size
    whole = Image.new("RGB", (2 * width, 2 * height), "white")
    for i, picture in enumerate(pictures):
        whole.paste(picture, (i % 2 * width, i // 2 * height))
    return whole


if __name__ == "__main__":
    main()
