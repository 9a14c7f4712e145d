"""How fast and how punctual this computer is: round trip, lateness, rates, each beside a bare floor."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.nodes.launcher import Launcher
from servonode.simulation.floors import BenchError, hand_loop, ping_pong
from servonode.simulation.simulate import simulate_fused, simulate_nodes

PERIOD_S, PACED_S = 1e-3, 1.0  # of the run in real time
EXCHANGES, PERIOD_IN_LOCKSTEP = 4000, 0.01  # of those in lockstep
EVERY = 10  # plant steps a recorded row
NAME = "bench"


@dataclass(frozen=True)
class Measure:
    """A number of servonode beside its floor (None: it has no floor), both in `unit`."""

    name: str
    unit: str
    ours: float
    floor: float | None
    floor_is: str = ""  # what the floor does

    @property
    def ratio(self) -> float | None:
        """Ours as a multiple of the floor."""
        return self.ours / self.floor if self.floor else None


def measures() -> Iterator[Measure]:
    """Each as soon as it is measured, of the robot with trailer that follows its goal; some 10 s in all.

    Raises:
        BenchError: a run met a fault, or a process ended; BusError: a run could not be started.
    """
    yield from _in_real_time()
    yield from _in_lockstep()


def _in_real_time() -> Iterator[Measure]:
    """Round trip and lateness at 1 kHz, with launcher, plant, controller and target as processes."""
    closed_loop = resolve(read_launch("trailer_pursuit", [
        'run.mode="realtime"', "run.speed=1", f"run.duration={PACED_S}", f"controller.period={PERIOD_S}",
        "plant.publish_every=1", f"plant.step={PERIOD_S}", "plant.safety.command_timeout_floor=0.5",
    ]))  # fmt: skip
    floor = ping_pong(closed_loop, round(PACED_S / PERIOD_S), PERIOD_S) * 1e6
    stats = _run(closed_loop)
    for quantile, bare in zip(("p50", "p99"), np.percentile(floor, [50, 99]), strict=True):
        ours = stats["round_trip_s"][quantile] * 1e6
        yield Measure(f"round trip at 1 kHz, {quantile}", "us", ours, float(bare), "two processes of pyzmq")
    for quantile in ("p50", "p99"):
        yield Measure(f"lateness of the plant, {quantile}", "us", stats["lateness_s"][quantile] * 1e6, None)
    missed = 100 * (stats["misses"] + stats["counts"].get("missed_commands", 0)) * PERIOD_S / PACED_S
    yield Measure("periods missed", "%", missed, None)


def _in_lockstep() -> Iterator[Measure]:
    """Control exchanges per second, with processes, with nodes in this process, and in one compiled function."""
    duration = EXCHANGES * PERIOD_IN_LOCKSTEP
    overrides = [f"run.duration={duration}", f"controller.period={PERIOD_IN_LOCKSTEP}"]
    closed_loop = resolve(read_launch("trailer_pursuit_lockstep", overrides))
    floor = EXCHANGES / float(ping_pong(closed_loop, EXCHANGES).sum())
    ours = EXCHANGES * float(_run(closed_loop)["rate"]) / duration
    yield Measure("exchanges in lockstep", "1/s", ours, floor, "two processes of pyzmq")
    by_hand = hand_loop(closed_loop, EXCHANGES)
    words = "law and machine called by hand"
    yield Measure("simulated by nodes", "1/s", EXCHANGES / simulate_nodes(closed_loop, EVERY).wall_s, by_hand, words)
    simulate_fused(closed_loop, EVERY)  # compiles it
    yield Measure("simulated, compiled", "1/s", EXCHANGES / simulate_fused(closed_loop, EVERY).wall_s, by_hand, words)


def _run(closed_loop: ClosedLoop) -> dict[str, Any]:
    """What a run on processes says of its own time keeping."""
    outcome = Launcher(closed_loop, f"{NAME}_{os.getpid()}", EVERY, lambda _: None).launch()
    if outcome.signal is not None:
        signal.raise_signal(outcome.signal)  # its handlers are those of before again
    if outcome.run is None or outcome.exit_code:
        reasons = "; ".join(each["text"] for each in outcome.faults) or outcome.stopped or "nothing was recorded"
        raise BenchError(f"the run failed, and nothing was measured: {reasons}; end what keeps this computer busy")
    return outcome.run.stats
