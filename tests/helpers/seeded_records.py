"""Seeded records of machines with other parameters than believed, through encoders and noise, for statistics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table
from servonode.definitions.references import at_hand
from servonode.identification.experiment import Experiment
from servonode.identification.recorded import experiment_of_states
from servonode.mechanics import Model, coordinate, input_, parameter

ENCODER = 2 * np.pi / 2048


def oscillator() -> Model:
    """A mass on a spring with a damper: m q'' + d q' + k q = F."""
    q = coordinate("q", "position", "m")
    m = parameter("m", "mass", "kg", default=1.0, above=0)
    d = parameter("d", "damper", "N s/m", default=0.8, at_least=0)
    k = parameter("k", "spring", "N/m", default=20.0, above=0)
    F = input_("F", "force", "N")
    return Model(
        name="oscillator",
        description="mass on a spring",
        coordinates=(q,),
        parameters=(m, d, k),
        kinetic=m * q.rate**2 / 2,
        potential=k * q**2 / 2,
        dissipation=d * q.rate**2 / 2,
        inputs={F: q.rate},
    )


TRAILER: Mapping[str, Any] = {
    "run": {"duration": 8.0},
    "plant": {
        "machine": "diff_drive_trailer",
        "initial": {"phi": 0.3},
        "sensor": {
            "noise": {"X": 0.002, "Y": 0.002, "psi": 0.003, "phi": 0.003, "V": 0.01, "Omega": 0.01,
                      "theta1": 0.001, "theta2": 0.001},
            "quantum": {"theta1": ENCODER, "theta2": ENCODER},
        },
    },
    "controller": {
        "program": "open_loop", "period": 0.02,
        "settings": {"U1": "0.3*sin(2*t) + 0.2*sin(5*t)", "U2": "0.3*sin(2.6*t) + 0.25*sin(4*t)"},
    },
}  # fmt: skip
OSCILLATOR: Mapping[str, Any] = {
    "run": {"duration": 10.0},
    "plant": {
        "machine": at_hand(oscillator),
        "initial": {"q": 0.1},
        "sensor": {"noise": {"q": 0.0003, "q_dot": 0.02}, "quantum": {"q": 0.001}},
    },
    "controller": {"program": "open_loop", "period": 0.01, "settings": {"F": "3*sin(3*t) + 2*sin(6.3*t)"}},
}  # fmt: skip
CASES = {"trailer": (TRAILER, ("m1", "I1", "c_w")), "oscillator": (OSCILLATOR, ("m", "d", "k"))}
TRUE = {"m1": 4.0, "I1": 0.7, "c_w": 0.02, "m": 1.0, "d": 0.8, "k": 20.0}


def case(machine: str, seed: int) -> tuple[ClosedLoop, Experiment, np.ndarray, tuple[str, ...]]:
    """A closed loop that believes other parameters than its plant has, a record of it, the true parameters, names."""
    table, names = CASES[machine]
    rng = np.random.default_rng(seed)
    true = {name: TRUE[name] * rng.uniform(0.8, 1.25) for name in names}
    overrides = [f"plant.parameters.{name}={value!r}" for name, value in true.items()]
    overrides += [f"controller.parameters.{name}={TRUE[name]!r}" for name in names] + [f"run.seed={seed}"]
    loop = resolve(launch_of_table(table, overrides), strict=False)
    return loop, measured(loop), np.array([*true.values()]), names


def measured(loop: ClosedLoop) -> Experiment:
    """What a plant publishes at control instants, and the inputs that act on it, without any node."""
    plant, launch = loop.plant(), loop.launch
    assert loop.control is not None
    assert launch.steps_per_period is not None
    law, steps, k, states, inputs = loop.control.law, launch.steps_per_period, [], [], []
    answer = law.answer()
    while plant.k <= launch.steps:
        reading = plant.read()
        law.compute(plant.t, plant.x, loop.goal(plant.t), answer)
        k.append(plant.k)
        states.append(reading.state.copy())
        inputs.append(answer.inputs.copy())
        plant.write(answer.inputs)
        plant.advance(steps)
    at = np.array(k)
    return experiment_of_states(f"seed {launch.run.seed}", loop, at, np.array(states), at, np.array(inputs))
