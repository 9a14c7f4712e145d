"""Many runs: how fast a sweep goes on one core, on two, and through dask, and how much memory it takes.

    python benchmarks sweep                     10 000 runs, some minutes
    python benchmarks/sweep.py --runs 100000    half an hour

Each run is 20 s of the trailer's pursuit, with a control period of 10 ms and plant steps of 1 ms; the hitch angle at
the start and the robot's mass vary. The same chunks are computed on one thread and on two, one after the other, so that
what else the computer does acts on both; then through dask, on two worker processes of one thread each. Every way must
give the same bits. A rate is plant seconds per second of wall clock; per core, per second that processors worked for
it, which other processes do not take away. `--priority` puts it before all other processes, with root's rights.

Beside it: Python loops over `loop.simulate` and over `servonode.simulate`, and MuJoCo's threaded rollout of the same
robot, whose wheels roll on a floor, in steps of 0.5 ms under constant torques: without a law, because a rollout has
none.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from common import options, peak_mb

import servonode
from servonode.wings.explore.sweeps.chunk import Chunk
from servonode.wings.explore.sweeps.cluster import computed_on
from servonode.wings.explore.sweeps.plan import Plan

RUN_S, WARM, NAIVE, LOADED, ROLLED = 20.0, 50, 300, 40, 12
MEMORY_S = 1.0  # of a run whose memory is measured
KEYS = {"plant.initial.phi": [-0.5, 0.5], "plant.parameters.m1": [3.0, 5.0]}
TORQUE = 0.02  # N m at each wheel


def plan_of(runs: int, duration: float = RUN_S, chunk: int | None = None) -> Plan:
    """A sweep of so many runs of this duration [s]."""
    sweep: dict[str, Any] = {"vary": KEYS, "method": "random", "runs": runs, "seed": 1}
    sweep |= {"chunk": chunk} if chunk else {}
    return Plan(servonode.load("trailer_pursuit", run__duration=duration, sweep=sweep).closed_loop)


def same(a: Chunk, b: Chunk) -> bool:
    """Whether all measures have the same bits."""
    return a.reasons == b.reasons and all(
        values.tolist() == b.measures[name].tolist() or np.array_equal(values, b.measures[name], equal_nan=True)
        for name, values in a.measures.items()
    )


def on_threads(plan: Plan) -> tuple[dict[str, float], list[Chunk]]:
    """Rates on one thread and on two, by the same chunks in turn, and these."""
    wall, cores, chunks = {1: 0.0, 2: 0.0}, {1: 0.0, 2: 0.0}, []
    for index in range(plan.chunks):
        found = []
        for threads in (1, 2) if index % 2 else (2, 1):
            begun, spent = perf_counter(), process_time()
            [(_, chunk)] = plan.computed([index], threads)
            wall[threads] += perf_counter() - begun
            cores[threads] += process_time() - spent
            found.append(chunk)
        if not same(*found):
            raise SystemExit("one thread and two give different numbers")
        chunks.append(found[0])
    seconds = RUN_S * plan.runs
    rates = {f"rate_{threads}": seconds / wall[threads] for threads in wall}
    rates |= {f"rate_{threads}_per_core": seconds / cores[threads] for threads in wall}
    return rates | {"scaling": rates["rate_2"] / rates["rate_1"] / 2}, chunks


def through_dask(plan: Plan, chunks: list[Chunk]) -> dict[str, float]:
    """The rate through dask with its start, and that after its first two chunks."""
    begun, ends = perf_counter(), []
    for index, chunk in computed_on(plan, range(plan.chunks), 2, None, send_code=False):
        ends.append(perf_counter())
        if not same(chunk, chunks[index]):
            raise SystemExit("dask gives different numbers")
    found = {"rate_dask": RUN_S * plan.runs / (ends[-1] - begun)}
    if len(ends) > 2:
        found["rate_dask_started"] = RUN_S * plan.chunk * (len(ends) - 2) / (ends[-1] - ends[1])
    return found


def naive(plan: Plan) -> dict[str, float]:
    """The rates of Python loops, on one thread: over `loop.simulate`, and with a launch file resolved for each run."""
    loop = servonode.Loop(plan.closed_loop)
    rows = [dict(zip(plan.design.keys, row, strict=True)) for row in plan.values(0).tolist()]
    begun = perf_counter()
    for i in range(NAIVE):
        loop.simulate(values=rows[i % len(rows)])
    found = {"naive": RUN_S * NAIVE / (perf_counter() - begun)}
    begun = perf_counter()
    for row in rows[:LOADED]:
        servonode.simulate("trailer_pursuit", run__duration=RUN_S, **{k.replace(".", "__"): v for k, v in row.items()})
    return found | {"naive_loaded": RUN_S * len(rows[:LOADED]) / (perf_counter() - begun)}


def rollouts() -> dict[str, float]:
    """The rates of MuJoCo's rollout on one thread and on two; empty without MuJoCo."""
    try:
        import mujoco
        from mujoco import rollout
    except ImportError:
        return {}
    motion: Any = servonode.load("trailer_pursuit_mujoco").closed_loop.motion()
    model, spec = motion._model, mujoco.mjtState.mjSTATE_FULLPHYSICS
    start = np.zeros(mujoco.mj_stateSize(model, spec))
    mujoco.mj_getState(model, motion._data, start, spec)
    steps, torques = round(RUN_S / model.opt.timestep), np.full((ROLLED, 1, model.nu), TORQUE)
    found = {}
    for threads in (1, 2):
        data = [mujoco.MjData(model) for _ in range(threads)]
        with rollout.Rollout(nthread=threads) as roll:
            begun = perf_counter()
            roll.rollout(model, data, np.tile(start, (ROLLED, 1)), np.repeat(torques, steps, axis=1))
            found[f"rollout_{threads}"] = RUN_S * ROLLED / (perf_counter() - begun)
    return found


def memory(counts: list[int]) -> Iterator[tuple[int, float]]:
    """The peak memory [MB] of sweeps of so many runs of 1 s into a folder, each in a process of its own."""
    for runs in counts:
        command = [sys.executable, __file__, "--memory-of", str(runs)]
        yield runs, float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def sweep_into_folder(runs: int) -> None:
    """Make a sweep of so many runs of 1 s, in chunks of 500; print the peak memory."""
    from servonode.wings.explore.sweeps.run_sweep import Where, run_sweep

    with tempfile.TemporaryDirectory() as folder:
        run_sweep(plan_of(runs, MEMORY_S, 500), Where(threads=2), Path(folder) / "sweep.zarr")
    print(peak_mb())


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="runs of 20 s (default 10 000)")
    parser.add_argument("--chunk", type=int, help="runs of a chunk (default: that of a sweep, 500)")
    parser.add_argument("--priority", action="store_true", help="before all other processes (needs root)")
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        sweep_into_folder(arguments.memory_of)
        return
    if arguments.priority:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    plan = plan_of(arguments.runs, chunk=arguments.chunk)
    list(plan_of(WARM).computed([0], 2))  # kernels are loaded
    found, chunks = on_threads(plan)
    found |= through_dask(plan, chunks) | naive(plan) | rollouts()
    counts = [10**k for k in range(3, 6) if 10**k <= arguments.runs]
    found |= {f"memory_{runs}": peak for runs, peak in memory(counts)}
    if arguments.json:
        print(json.dumps({"runs": arguments.runs} | found, indent=1))
        return
    print(f"{arguments.runs} runs of {RUN_S:g} s, the same bits each way\n")
    for name, words in TEXTS.items():
        if name in found:
            print(f"{words:<58}{found[name]:>9.0f} x real time")
    print(f"\n{'scaling from one thread to two':<58}{found['scaling']:>9.2f}")
    dask = found.get("rate_dask_started", found["rate_dask"]) / found["rate_2"]
    print(f"{'dask, once started, of two threads':<58}{dask:>9.2f}")
    for runs in counts:
        print(f"{f'peak memory of {runs} runs of 1 s into a folder':<58}{found[f'memory_{runs}']:>9.0f} MB")


TEXTS = {
    "rate_1": "one thread",
    "rate_1_per_core": "the same, per core",
    "rate_2": "two threads",
    "rate_2_per_core": "the same, per core",
    "rate_dask": "dask, two workers, with their start",
    "rate_dask_started": "dask, two workers, once they have started",
    "naive": "a Python loop over loop.simulate",
    "naive_loaded": "a Python loop over servonode.simulate",
    "rollout_1": "MuJoCo rollout, constant torques, one thread",
    "rollout_2": "MuJoCo rollout, constant torques, two threads",
}

if __name__ == "__main__":
    main()
