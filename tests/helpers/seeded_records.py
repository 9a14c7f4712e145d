"""Seeded records of machines with other parameters than believed, through encoders and noise, for statistics."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sympy import cos

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table
from servonode.definitions.references import reference_to
from servonode.mechanics import Model, coordinate, input_, parameter
from servonode.wings.explore.identification.experiment import Experiment, experiment_of_states
from servonode.wings.explore.identification.identification import _fitted, believed, chosen
from servonode.wings.explore.identification.trajectories import Trajectories
from servonode.wings.explore.identification.uncertainty import residuals_of, unrounded

ENCODER = 2 * np.pi / 2048
COARSE = [(force, differenced) for force in (0.5, 5.0) for differenced in (False, True)]
WITHIN = 0.02  # of the true value


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


def hanging() -> Model:
    """A cart on rails that rub, from which a bob hangs."""
    x, a = coordinate("x", "position of the cart", "m"), coordinate("a", "swing", "rad")
    M = parameter("M", "cart", "kg", default=3.0, above=0)
    c = parameter("c", "friction of the rails", "N s/m", default=0.0, at_least=0)
    F = input_("F", "force on the cart", "N")
    v2 = x.rate**2 + 1.6 * cos(a) * x.rate * a.rate + 0.64 * a.rate**2
    return Model(
        name="hanging",
        description="cart with a bob",
        coordinates=(x, a),
        parameters=(M, c),
        kinetic=M * x.rate**2 / 2 + 0.4 * v2,
        potential=-0.8 * 9.81 * 0.8 * cos(a),
        dissipation=c * x.rate**2 / 2,
        inputs={F: x.rate},
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
        "machine": reference_to(oscillator),
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


def coarse_case(force: float, differenced: bool, seed: int) -> tuple[ClosedLoop, Experiment, np.ndarray]:
    """A record through encoders of 2 cm and 0.02 rad, from any place and phase, and the true parameters.

    Its speeds are noisy by 0.1, or the differences of the encoders' counts over a period.
    """
    rng = np.random.default_rng(seed)
    true, place, phase = {"M": rng.uniform(3.0, 3.8), "c": rng.uniform(1.0, 1.4)}, *rng.uniform(0, [0.6, 6.28])
    sensor = {"noise": {"x_dot": 0.1, "a_dot": 0.1}, "quantum": {"x": 0.02, "a": 0.02}}
    table = {
        "run": {"duration": 12.0, "seed": seed},
        "plant": {"machine": reference_to(hanging), "step": 0.005, "parameters": true, "initial": {"x": place}},
        "controller": {
            "program": "open_loop", "period": 0.02, "parameters": {"M": 3.0, "c": 0.0},
            "settings": {"F": f"{force}*sin(0.8*t + {phase})"},
        },
    }  # fmt: skip
    table["plant"]["sensor"] = sensor  # type: ignore[index]
    loop = resolve(launch_of_table(table), strict=False)
    record = measured(loop)
    if differenced:
        channels, guess = list(record.channels), record.guess.copy()
        for i in (0, 1):
            speeds = np.append(0.0, np.diff(channels[i].values)) / 0.02
            channels[2 + i], guess[:, 2 + i] = replace(channels[2 + i], values=speeds), speeds
        record = replace(record, channels=tuple(channels), guess=guess)
    return loop, record, np.array([*true.values()])


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


def estimated(loop: ClosedLoop, experiment: Experiment, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The estimates of the parameters and half of their 95 % intervals."""
    before = np.array([believed(loop)[name] for name in names])
    found = _fitted([Trajectories(experiment, names)], before, chosen(loop, names), None)
    found, covariance = unrounded(found, chosen(loop, names), residuals_of(found))
    return found.values, covariance.quantile * np.sqrt(np.diag(covariance.matrix))


def coarse_shares(force: float, differenced: bool, seeds: range) -> tuple[np.ndarray, np.ndarray]:
    """Of each record and parameter whether the interval holds the truth, and the relative error."""
    held, missed = [], []
    for seed in seeds:
        loop, experiment, true = coarse_case(force, differenced, seed)
        values, errors = estimated(loop, experiment, ("M", "c"))
        held.append(np.abs(values - true) <= errors)
        missed.append(np.abs(values / true - 1))
    return np.array(held), np.array(missed)
