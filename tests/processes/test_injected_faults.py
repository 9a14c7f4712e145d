"""Injected faults in processes: the bits of a simulation, and nodes that are killed and stalled."""

from pathlib import Path
from typing import Any

import numpy as np

import servonode
from tests.helpers.runs import START_S, Process
from tests.safety.test_injected_faults import BEGIN_S, CASES, Fault, injected


def test_processes_in_lockstep_give_the_bits_of_a_simulation_in_python_too() -> None:
    same_bits(*CASES[8][:2])


def same_bits(run: dict[str, Any], fault: Fault) -> None:
    """A run of processes has the bits of its simulation, with this fault."""
    simulated = injected(run, fault)
    ran = servonode.run(fault=[{"at": BEGIN_S} | fault], run__lockstep_timeout=60.0, **run)
    assert ran.control == "lockstep"
    assert ran.stats["rate"] > 0
    assert ran.stats["injected"] == simulated.stats["injected"]
    assert simulated.columns.keys() == ran.columns.keys()
    for name, values in simulated.columns.items():
        assert np.array_equal(values, ran.columns[name], equal_nan=True), name


def test_a_node_that_is_killed_is_found(tmp_path: Path) -> None:
    node, name = "plant", "node_died"
    patient = ("plant.safety.command_timeout=5", "plant.safety.lateness_limit=10")
    fault = f'fault=[{{on = "node", at = 0.5, kind = "kill", name = "{node}"}}]'
    process = Process(tmp_path, "trailer_pursuit", "run.duration=60", "run.speed=3", *patient, fault)
    process.ends_with(1, START_S)
    (told,) = process.printed["injected"]
    assert told["found"] == name
    process.fault(name)
