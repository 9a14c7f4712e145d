"""The rows of a run made of its messages, where none were recorded: by listening, or of a bag that another has cut.

States are those that the plant published, measured and as often as it did. What the controller computed is computed
again. The work of the inputs is not in the messages, so there is no energy check.
"""

import numpy as np

from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import unpacked
from servonode.record.bag import Bag
from servonode.record.run import Run
from servonode.record.run_rows import RunRows, columns_of
from servonode.record.write import BagError
from servonode.simulation.replay import COMMANDS, STATES, play


def runs_in(bag: Bag, closed_loop: ClosedLoop) -> list[Run]:
    """The run of a bag, after those of a plant that died and was restarted; from its rows, else its messages.

    Raises BagError where it holds neither.
    """
    if bag.rows.lives:
        _check_columns(bag, closed_loop)
        return bag.runs(closed_loop)
    try:
        runs = _rows(bag, closed_loop).runs(closed_loop)
    except (KeyError, ValueError, TypeError) as error:  # of a state with other names
        machine = closed_loop.machine.description.name
        raise BagError(
            f"{bag.file}: holds a {STATES} that does not belong to the machine {machine} ({error})"
        ) from error
    if not runs:
        remedy = bag.remedy("record a run to which the plant belongs")
        raise BagError(f"{bag.file}: holds no rows and no {STATES} of which they can be made; {remedy}")
    return runs


def _check_columns(bag: Bag, closed_loop: ClosedLoop) -> None:
    """BagError unless the rows are those of this machine and program."""
    for node, columns in columns_of(closed_loop).items():
        found = bag.rows.columns.get(node, columns)
        if found != columns:
            remedy = "it has changed since, or the recording was"
            raise BagError(f"{bag.file}: its rows of the {node} have other columns than what was run; {remedy}")


def _rows(bag: Bag, closed_loop: ClosedLoop) -> RunRows:
    machine, found = closed_loop.machine.description, RunRows(columns_of(closed_loop))
    lives: dict[int, dict[int, list[float]]] = {}  # rows by step, by the plant's start id
    for _, _, message in bag.messages((STATES,)):
        goal_k = message["goal_k"] if message["goal_k"] >= 0 else message["k"]
        inputs = [message["input"][name] for name in machine.input_names]
        row = [message["k"], *unpacked(machine.layout, message["state"]), np.nan, *inputs, goal_k, message["age"]]
        lives.setdefault(message["run"], {})[message["k"]] = row
    answers = dict(play(bag, closed_loop)) if closed_loop.control and bag.holds(COMMANDS) else {}
    for life, (run, rows) in enumerate(lives.items()):
        tables = {PLANT: np.array([rows[k] for k in sorted(rows)], dtype=float), CONTROLLER: answers.get(run)}
        for node, table in tables.items():
            if table is not None and len(table):
                found.add(node, life, table)
    return found
