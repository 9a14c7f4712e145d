"""Environments: steps a second of `servonode.VectorEnv`, beside the bare integrator and many `servonode.Env`.

    python benchmarks environments
    python benchmarks/environments.py --priority    before all other processes, with root's rights

A step is a control period of 10 ms of the robot with trailer, ten steps of RK4, with random actions, rewards and the
next episode where one ends. The floor is the integrator alone, called once for the same number of plant steps on one
thread. All are measured in turn, the best of several.
"""

import json
import os
from collections.abc import Callable
from time import perf_counter

import numpy as np
from common import options
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import servonode

ENVS, STEPS, TURNS = 64, 200, 20
LAUNCH, LIMIT = "trailer_pursuit", {"plant__safety__limit": 0.5}


def stepping(envs: servonode.VectorEnv | SyncVectorEnv, steps: int) -> Callable[[], None]:
    """So many steps of all environments."""
    rng = np.random.default_rng(0)
    actions = [rng.uniform(-0.2, 0.2, envs.action_space.shape) for _ in range(steps)]
    envs.reset(seed=0)

    def steps_of_all() -> None:
        for each in actions:
            envs.step(each)

    return steps_of_all


def floor() -> Callable[[], None]:
    """As many plant steps of the integrator."""
    closed_loop = servonode.load(LAUNCH).closed_loop
    machine, launch, x = closed_loop.machine, closed_loop.launch, closed_loop.start.copy()
    advance, u = machine.advancer(launch.plant.integrator), np.full(machine.n_inputs, 1e-3)

    def steps_of_all() -> None:
        x[:] = closed_loop.start
        advance(0, STEPS * ENVS * (launch.steps_per_period or 1), launch.step_ns, x, u, machine.c)

    return steps_of_all


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--priority", action="store_true", help="before all other processes (needs root)")
    arguments = parser.parse_args()
    if arguments.priority:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    one = [lambda: servonode.Env(LAUNCH, **LIMIT)] * ENVS
    ways = {
        "the integrator alone, one thread": (floor(), STEPS),
        "VectorEnv, one thread": (stepping(servonode.VectorEnv(LAUNCH, ENVS, threads=1, **LIMIT), STEPS), STEPS),
        "VectorEnv, two threads": (stepping(servonode.VectorEnv(LAUNCH, ENVS, threads=2, **LIMIT), STEPS), STEPS),
        "SyncVectorEnv of Env": (stepping(SyncVectorEnv(one, autoreset_mode=AutoresetMode.NEXT_STEP), 5), 5),
    }
    rates = dict.fromkeys(ways, 0.0)
    for _ in range(TURNS):
        for name, (work, steps) in ways.items():
            begun = perf_counter()
            work()
            rates[name] = max(rates[name], ENVS * steps / (perf_counter() - begun))
    if arguments.json:
        print(json.dumps(rates, indent=1))
        return
    best = next(iter(rates.values()))
    for name, rate in rates.items():
        print(f"{name:<36}{rate:>12.0f} steps/s {rate / best:>8.2f}")


if __name__ == "__main__":
    main()
