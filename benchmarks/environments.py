"""Environments: steps a second of `servonode.VectorEnv`, beside the bare integrator, gymnasium's and MuJoCo's own.

    python benchmarks environments
    python benchmarks/environments.py --priority    before all other processes, with root's rights

A step is a control period of 10 ms of the robot with trailer, ten steps of RK4, with random actions, rewards and the
next episode where one ends. The floor is the integrator alone, called once for the same number of plant steps on one
thread. Short episodes end after 25 steps, and begin from another hitch angle with another mass. Those of gymnasium are
its classic control, as arrays of numpy where it has them so, and its simplest robot in MuJoCo (extra `mujoco`; also by
MuJoCo's rollout alone), each of which is a much smaller machine with a step of its own. All are measured in turn, the
best of several.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import gymnasium
import numpy as np
from common import options
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import servonode

ENVS, STEPS, TURNS = 64, 200, 20
LAUNCH, LIMIT = "trailer_pursuit", {"plant__safety__limit": 0.5}


SHORT = {"run__duration": 0.25, "vary": {"plant.initial.phi": [-0.5, 0.5], "plant.parameters.m1": [3.0, 5.0]}}
OTHERS = ("CartPole-v1", "Pendulum-v1", "InvertedPendulum-v5")


def others() -> dict[str, tuple[Callable[[], None], int]]:
    """Steps of gymnasium's own environments, of those that are installed."""
    found = {}
    for name in OTHERS:
        try:
            envs = gymnasium.make_vec(name, ENVS)
        except (gymnasium.error.Error, ImportError) as error:
            sys.stderr.write(f"{name} is left out: {error}\n")
            continue
        found[f"gymnasium's {name}, {type(envs).__name__}"] = (stepping(envs, 5), 5)
    try:
        return found | {"MuJoCo's rollout of InvertedPendulum's file, one thread": (rolling_out(50), 50)}
    except ImportError as error:
        sys.stderr.write(f"MuJoCo's rollout is left out: {error}\n")
        return found


def rolling_out(steps: int) -> Callable[[], None]:
    """Steps of the machine of InvertedPendulum-v5 in MuJoCo alone, two of MuJoCo's each as there, without Python."""
    import mujoco
    from mujoco import rollout

    file = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "inverted_pendulum.xml"
    model = mujoco.MjModel.from_xml_path(str(file))
    data, size = mujoco.MjData(model), mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    control = np.random.default_rng(0).uniform(-0.2, 0.2, (ENVS, 2 * steps, model.nu))
    return lambda: rollout.rollout(model, [data], np.zeros((ENVS, size)), control)


def stepping(envs: gymnasium.vector.VectorEnv, steps: int) -> Callable[[], None]:
    """So many steps of all environments, with small actions."""
    rng = np.random.default_rng(0)
    actions = [rng.uniform(-0.2, 0.2, envs.action_space.shape) for _ in range(steps)]
    if envs.action_space.dtype.kind == "i":
        actions = [envs.action_space.sample() for _ in range(steps)]
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
        "VectorEnv, one thread, short episodes": (
            stepping(servonode.VectorEnv(LAUNCH, ENVS, threads=1, **LIMIT, **SHORT), STEPS),
            STEPS,
        ),
        "SyncVectorEnv of Env": (stepping(SyncVectorEnv(one, autoreset_mode=AutoresetMode.NEXT_STEP), 5), 5),
    } | others()
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
        print(f"{name:<60}{rate:>12.0f} steps/s {rate / best:>8.2f}")


if __name__ == "__main__":
    main()
