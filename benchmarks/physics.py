"""Machines that MuJoCo moves: what a step costs against our own, and what a law copes with on real wheels.

    python benchmarks physics

The law is that of `trailer_reverse_mujoco`, unchanged. Its convergence rate, its period and the floor's friction vary,
with motors of any torque, and with torque limited to a share of what the wheels can bring to the floor. Each entry is
how far the middle of the trailer's axle is from the line after 20 s [m], or the fault and its time [s].
"""

import json
from time import perf_counter
from typing import Any

import numpy as np
from common import options

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.record.run import Run, default_every
from servonode.simulation.simulate import simulate_nodes

RATES = (1.0, 3.0, 10.0, 30.0)  # 1/s
PERIODS = (0.005, 0.01, 0.02, 0.05)  # s
FRICTIONS = (0.8, 0.2, 0.1, 0.05, 0.02)
LAUNCH, IDEAL = "trailer_reverse_mujoco", "trailer_reverse"
GRIP = 0.6  # of the torque that makes a wheel slip at rest
WHEEL_LOAD, RADIUS = 19.62, 0.075  # N, m
STEPS, TURNS = 2000, 5
SUBSTEPS = (1, 2, 5, 10)


def step_costs() -> dict[str, float]:
    """Microseconds of a plant step of 1 ms of each way to move the trailer robot, the best of several turns."""
    plants = {"equations (rk4)": servonode.load(IDEAL).closed_loop.plant()}
    for n in SUBSTEPS:
        settings = {"plant__mujoco__substeps": n}
        plants[f"MuJoCo, {n} substeps"] = servonode.load(LAUNCH, **settings).closed_loop.plant()
    best = dict.fromkeys(plants, np.inf)
    for _ in range(TURNS):
        for name, plant in plants.items():
            begun = perf_counter()
            plant.advance(STEPS)
            best[name] = min(best[name], (perf_counter() - begun) / STEPS * 1e6)
    return best


def reversing(friction: float | None, limited: bool, rate: float, period: float) -> Run:
    """The trailer backed onto the line; friction None: the machine's own equations."""
    settings: dict[str, Any] = {
        "controller__gains": {"lambda": rate},
        "controller__period": period,
        "run__duration": 20.0,
    }
    if friction is not None:
        settings["plant__mujoco__friction"] = friction
        if limited:
            settings["plant__actuator__limit"] = GRIP * friction * WHEEL_LOAD * RADIUS
    closed_loop = servonode.load(IDEAL if friction is None else LAUNCH, **settings).closed_loop
    return simulate_nodes(closed_loop, default_every(closed_loop))


def outcome(friction: float | None, limited: bool, rate: float, period: float) -> dict[str, Any]:
    """Where the trailer is at the end, what the wheels took of the energy, the fault if any."""
    try:
        run = reversing(friction, limited, rate, period)
    except LaunchError as refused:
        return {"refused": str(refused)}
    fault = run.fault
    if fault is not None:
        return {"fault": fault["name"], "t": fault["t"], "text": fault["text"]}
    return {"off": abs(float(run.outputs["Y2"][-1])), "lost": run.energy_error}


def shown(found: dict[str, Any]) -> str:
    if "refused" in found:
        return "refused"
    return f"{found['fault']} {found['t']:.2f} s" if "fault" in found else f"{found['off']:.1e}"


def main() -> None:
    arguments = options(__doc__).parse_args()
    costs = step_costs()
    floors = [(None, False), *((mu, limited) for limited in (False, True) for mu in FRICTIONS)]
    cases = [(*each, rate, period) for each in floors for rate in RATES for period in PERIODS]
    rows = {case: outcome(*case) for case in cases}
    if arguments.json:
        print(json.dumps({"step_us": costs, "reversing": [[*case, found] for case, found in rows.items()]}, indent=1))
        return
    floor = next(iter(costs.values()))
    for name, took in costs.items():
        print(f"{name:<24}{took:>8.2f} us a step {took / floor:>8.0f} x")
    print(f"\n{'friction':<14}{'rate':>8}" + "".join(f"{f'period {period:g} s':>18}" for period in PERIODS))
    for mu, limited in floors:
        name = "equations" if mu is None else f"{mu:g}{' limited' if limited else ''}"
        for rate in RATES:
            line = "".join(f"{shown(rows[mu, limited, rate, period]):>18}" for period in PERIODS)
            print(f"{name:<14}{rate:>8g}{line}")


if __name__ == "__main__":
    main()
