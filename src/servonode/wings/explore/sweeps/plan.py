"""A sweep ready to be computed: its variation, its design, what is kept of each run, and its chunks of runs."""

from collections.abc import Generator, Iterable
from functools import cached_property

import msgspec
import numpy as np

from servonode.analysis.goal_speed import check_speed
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.key_table import key_of
from servonode.closed_loop.launch_error import KeyRefused, naming_file, stated_in
from servonode.closed_loop.launch_file import GOAL_SPEED
from servonode.closed_loop.launch_keys import AUTO, LaunchFile
from servonode.closed_loop.variation import Variation
from servonode.record.run import default_every
from servonode.wings.explore.sections import Sweep
from servonode.wings.explore.sweeps.chunk import Chunk, run_chunk
from servonode.wings.explore.sweeps.design import SWEEP, VARY, Design
from servonode.wings.explore.sweeps.measures import Measures

Chunks = Generator[tuple[int, Chunk], None, None]  # with their indices, as they are finished
STEPS_OF_CHUNK = 10_000_000  # plant steps, some two seconds of a compiled loop
LEAST, MOST, MOST_CHUNKS = 20, 5000, 2000  # runs of a chunk, and chunks of a sweep, where the user states none
LEAST_OF_HISTORIES = 4  # runs of a chunk that keeps every recorded row


class Plan:
    """The runs of a sweep in chunks. A chunk is what is computed, kept and resumed as a whole."""

    def __init__(self, closed_loop: ClosedLoop, histories: bool = False) -> None:
        """Raises LaunchError where [sweep] cannot be one, or names keys that cannot vary."""
        launch = closed_loop.launch
        with naming_file(launch.file):
            stated = launch.section(SWEEP, Sweep)
            if stated is None:
                text = 'missing; say what varies, such as [sweep.vary] "plant.parameters.m1" = [3.0, 5.0]'
                raise KeyRefused(SWEEP, None, text)
            self.stated = stated
            self.design = Design(self.stated, launch.times.duration)
            if histories:
                _check_times(closed_loop, self.design.keys)
            self.variation = Variation(closed_loop, self.design.keys)
            if GOAL_SPEED in self.design.keys:
                check_speed(closed_loop, VARY, GOAL_SPEED)
            with stated_in(SWEEP, "measures"):
                self.measures = Measures(self.variation, self.stated.measures, histories)
        self.closed_loop, self.histories = closed_loop, histories
        self.runs = self.design.runs
        self.chunk = min(self.runs, self.stated.chunk or _default_chunk(launch.steps, self.runs, histories))

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.runs // self.chunk)

    def bounds(self, index: int) -> tuple[int, int]:
        """The first run of a chunk, and the one behind its last."""
        return index * self.chunk, min(self.runs, (index + 1) * self.chunk)

    def values(self, index: int) -> Array:
        """The values of the runs of a chunk, (n, n_keys)."""
        return self.design.values(*self.bounds(index))

    def computed(self, indices: Iterable[int], threads: int) -> Chunks:
        """The chunks of these indices, one after the other, each on so many threads."""
        for index in indices:
            yield index, run_chunk(self.variation, self.values(index), self.measures, threads)

    @cached_property
    def units(self) -> dict[str, str]:
        """The unit of each key, measure and column, by name; "" where it is not known."""
        measures = dict(zip(self.measures.names, self.measures.units, strict=True))
        return self.measures.columns | measures | dict(zip(self.variation.keys, self.variation.units, strict=True))

    @cached_property
    def times(self) -> Array:
        """The times of the rows of a history [s], the same in all runs."""
        launch, every = self.closed_loop.launch, default_every(self.closed_loop)
        return np.append(np.arange(0, launch.steps, every), launch.steps) * launch.step_ns / 1e9  # as a run has them


def _check_times(closed_loop: ClosedLoop, keys: Iterable[str]) -> None:
    """Refuse histories of runs that may have other times than the launch file's."""
    need = "histories need the same times in all runs"
    if moved := next((key for key in keys if (known := key_of(key)) and known.times), None):
        raise KeyRefused(VARY, moved, f"{need}; leave this key, or the histories, out")
    if closed_loop.stated.plant.step == AUTO:
        text = f'"{AUTO}": {need}, and this step may differ; give {closed_loop.launch.step_ns / 1e9:g}, or leave the '
        raise KeyRefused("plant", "step", f"{text}histories out")


def swept(closed_loop: ClosedLoop) -> LaunchFile:
    """The launch file that gives the runs of a sweep: as stated, for the machine prepares each run anew."""
    stated, more = closed_loop.stated, closed_loop.launch.more
    return msgspec.structs.replace(stated, more={**stated.more, SWEEP: more[SWEEP]})


def _default_chunk(steps: int, runs: int, histories: bool) -> int:
    """The runs of a chunk: some seconds of work, but no more chunks than a folder holds well."""
    least, most = (LEAST_OF_HISTORIES, MOST // 10) if histories else (LEAST, MOST)
    return max(min(max(STEPS_OF_CHUNK // steps, least), most), -(-runs // MOST_CHUNKS))
