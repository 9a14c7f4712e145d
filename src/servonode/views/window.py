"""The window on a run: messages from the bus, once a frame, into the animation.

Nobody waits for it. It takes what has arrived, keeps a bounded part of it, draws, and sleeps to the next frame; what a
frozen window does not take in is dropped by the sockets of the nodes.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from servonode.bus import run_path
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ServonodeError
from servonode.nodes.node_process import call_process
from servonode.operator.listener import give_way
from servonode.views.animation import SIZE, Animation
from servonode.views.display import Options, gui_backend
from servonode.views.live_run import Feed, LiveRun, usual_span
from servonode.views.panel_specs import chosen_panels
from servonode.views.sheet import STYLE

FPS = 30
WORDS_EVERY = 6  # frames after which texts are brought up to date
SAID_S = 2.0  # how long a message of the window itself stands in its title
SLOW = 0.9  # of the frames that are due, below which the title says how many there are
FOOTER = "space: pause      s: save the picture      q: close"


class Window:
    """A figure that shows the run of a name, frame by frame; `figure` is on any Agg canvas, with a display or not.

    Its attributes are mostly what its title says: what was pressed and told, and how many frames were drawn and lost.
    """

    def __init__(self, figure: Any, source: LiveRun, options: Options) -> None:
        self.figure, self.source, self.options = figure, source, options
        self.paused = self.closed = False
        self.frames = self.skipped = 0  # since the start; due, but never drawn
        self.picture: Animation | None = None
        self.feed: Feed | None = None
        self._closed_loop: ClosedLoop | None = None
        self._shown = -1  # rows of the ring that are in the picture
        self._message, self._message_until = "", 0.0
        self._second = (0.0, 0, 0)  # begin of the present second, frames and skipped ones then
        self._lag = ""
        figure.canvas.mpl_connect("key_press_event", lambda event: self.press(event.key))
        figure.canvas.mpl_connect("close_event", lambda _: self.close())

    def press(self, key: str | None) -> None:
        """Handle a key press."""
        if key == " ":
            self.paused = not self.paused
        elif key == "s":
            self.save()
        elif key == "q":
            self.close()

    def close(self) -> None:
        """End after this frame."""
        self.closed = True
        self.figure.canvas.stop_event_loop()

    def save(self) -> None:
        """Write the picture as it stands."""
        t = max(self.feed.t, 0.0) if self.feed else 0.0
        file = self.options.save or f"{self.source.name}_{t:.2f}.png"
        try:
            self.figure.savefig(file)
        except (OSError, ValueError) as error:
            self.say(f"cannot save: {error}")
        else:
            self.say(f"saved {file}")

    def say(self, text: str) -> None:
        """Show a text in the title for a moment."""
        self._message, self._message_until = text, time.monotonic() + SAID_S

    def frame(self) -> None:
        """Read the messages that have arrived; draw unless paused."""
        now = time.monotonic()
        if self.source.look(now):
            self.begin()
        self.source.take_in()
        self._count(now)
        self._draw(now)

    def begin(self) -> None:
        """Another run was found: clear the animation, and make a new one where the launch file differs."""
        closed_loop = self.source.closed_loop
        assert closed_loop is not None
        self.feed, self._shown = self.source.feed, -1
        if self.picture is not None and closed_loop is self._closed_loop:
            self.picture.begin_run()
            return
        self._closed_loop = closed_loop
        if self.picture is not None:
            self.picture.detach()
        span = self.options.span or usual_span(closed_loop)
        self.picture = Animation(
            self.figure, closed_loop, self.options.panels, span, timing=True, footer=FOOTER, words_every=WORDS_EVERY
        )

    def _draw(self, now: float) -> None:
        """Redraw the canvas if something visible has changed."""
        if self.picture is None or self.feed is None:
            return
        spoke = (self.frames % WORDS_EVERY == 0 or self.paused) and self._entitle(now)
        columns = self.feed.ring.columns
        count = self.feed.ring.count
        if not self.paused and count != self._shown:
            self.picture.show(columns["t"], columns)
            self._shown = count
        elif spoke:
            self.picture.show(columns["t"][:0], {})
        else:
            return
        self.figure.canvas.blit(self.figure.bbox)

    def _entitle(self, now: float) -> bool:
        """Update the first line; whether it has changed."""
        assert self.picture is not None
        assert self.feed is not None
        feed = self.feed
        parts = [self.source.name]
        if feed.t >= 0:
            parts.append(f"t = {feed.t:.1f} s")
        if feed.rate and self.source.alive:
            parts.append(f"{feed.rate:.2g} plant seconds per second")
        parts.append(self.source.plant_status)
        if feed.extra:
            parts.append(feed.extra)
        if self._lag:
            parts.append(self._lag)
        if self.paused:
            parts.append("PAUSED")
        if feed.fault_text:
            parts.append(f"FAULT {feed.fault_text}")
        if now < self._message_until:
            parts.append(self._message)
        return self.picture.title("     ".join(parts), alarm=bool(feed.fault_text))

    def _count(self, now: float) -> None:
        """Once a second, see whether frames were skipped."""
        self.frames += 1
        begin, frames, skipped = self._second
        if now - begin < 1.0:
            return
        drawn, lost = self.frames - frames, self.skipped - skipped
        self._lag = f"{drawn / (now - begin):.0f} frames/s" if begin and drawn < SLOW * (drawn + lost) else ""
        self._second = (now, self.frames, self.skipped)

    def run(self) -> None:
        """Frame after frame on absolute deadlines, until the window is closed."""
        period, begin, number = 1 / FPS, time.monotonic(), 0
        while not self.closed:
            self.frame()
            number += 1
            late = int((time.monotonic() - begin) / period) - number + 1
            if late > 0:
                number += late
                self.skipped += late
            if not self.closed:
                self.figure.canvas.start_event_loop(max(begin + number * period - time.monotonic(), 1e-3))
        self.source.leave()


def watch(name: str, options: Options, launcher: int = 0) -> int:
    """Show a window on the run of this name until the user closes it; the exit code, 130 after Ctrl-C.

    launcher: its process id; while it lives the run may still be about to start. 0: the run must exist.

    Raises:
        NoDisplay: no window can be opened; FieldError: no such panel; BusError: no such run.
    """
    give_way()  # before all else: loading the libraries takes a core for a second
    gui_backend()
    where = str(run_path(name)) if launcher else ""  # the launcher's own run, if another has its name
    source = LiveRun(name, where, span=options.span, panels=options.panels)
    if not source.wait_open((lambda: os.getppid() != launcher) if launcher else None):
        return 0
    assert source.closed_loop is not None
    chosen_panels(source.closed_loop, options.panels, timing=True)  # refused before there is a window
    return _show(source, options)


def _show(source: LiveRun, options: Options) -> int:
    """The window itself, from opening to closing."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.rcParams.update(STYLE)
    mpl.rcParams["toolbar"] = "None"
    mpl.rcParams.update({key: [] for key in mpl.rcParams if key.startswith("keymap.")})
    figure = plt.figure(figsize=SIZE)
    manager = figure.canvas.manager
    assert manager is not None
    manager.set_window_title(f"servonode: {source.name}")
    window = Window(figure, source, options)
    window.begin()
    interrupted: list[int] = []

    def end(number: int, _: Any) -> None:
        interrupted.append(number)
        window.close()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    plt.show(block=False)
    window.run()
    plt.close(figure)
    return 130 if signal.SIGINT in interrupted else 0


def main(words: Sequence[str]) -> int:
    """The window process of a launcher: the run's name, and the options as JSON."""
    name, options = words[0], Options(**json.loads(words[1]))
    try:
        call_process("window", name)
        return watch(name, options, launcher=os.getppid())
    except KeyboardInterrupt:
        return 130
    except ServonodeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
