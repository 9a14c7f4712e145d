"""The rows of a run made of its messages, where none were recorded: by listening, or of a bag that another has cut.

States are those that the plant published, measured and as often as it did. What the controller computed is computed
again. The work of the inputs is not in the messages, so there is no energy check.
"""

import numpy as np

from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import unpacked
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.bag import Bag
from servonode.record.files import runs_of
from servonode.record.run import Run
from servonode.record.spool import Pieces
from servonode.record.write import BagError
from servonode.simulation.replay import COMMANDS, STATES, play


def runs_in(bag: Bag, closed_loop: ClosedLoop) -> list[Run]:
    """The run of a bag, after those of a plant that died and was restarted; from its rows, else its messages.

    Raises BagError where it holds neither.
    """
    if bag.pieces.lives:
        _check_columns(bag, closed_loop)
        return bag.runs(closed_loop)
    try:
        runs = runs_of(closed_loop, _pieces(bag, closed_loop))
    except (KeyError, ValueError, TypeError) as error:  # of a state with other names
        machine = closed_loop.machine.description.name
        raise BagError(
            f"{bag.file}: holds a {STATES} that does not belong to the machine {machine} ({error})"
        ) from error
    if not runs:
        raise BagError(f"{bag.file}: holds no rows and no {STATES} of which they can be made")
    return runs


def _check_columns(bag: Bag, closed_loop: ClosedLoop) -> None:
    """BagError unless the rows are those of this machine and program."""
    for node, columns in _columns(closed_loop).items():
        found = bag.pieces.columns.get(node, columns)
        if found != columns:
            remedy = "it has changed since, or the recording was"
            raise BagError(f"{bag.file}: its rows of the {node} have other columns than what was run; {remedy}")


def _columns(closed_loop: ClosedLoop) -> dict[str, list[str]]:
    """The columns of the rows, by node."""
    machine = closed_loop.machine.description
    columns = {PLANT: PlantRecordLayout.of(machine).columns(machine)}
    if closed_loop.control:
        columns[CONTROLLER] = closed_loop.answer_columns
    return columns


def _pieces(bag: Bag, closed_loop: ClosedLoop) -> Pieces:
    machine, pieces = closed_loop.machine.description, Pieces()
    lives: dict[int, dict[int, list[float]]] = {}  # rows by step, by the plant's start id
    for _, _, message in bag.messages((STATES,)):
        goal_k = message["goal_k"] if message["goal_k"] >= 0 else message["k"]
        inputs = [message["input"][name] for name in machine.input_names]
        row = [message["k"], *unpacked(machine.layout, message["state"]), np.nan, *inputs, goal_k, message["age"]]
        lives.setdefault(message["run"], {})[message["k"]] = row
    answers = dict(play(bag, closed_loop)) if closed_loop.control and bag.holds(COMMANDS) else {}
    pieces.columns = _columns(closed_loop)
    first = {PLANT: 0, CONTROLLER: 0}
    for life, (run, rows) in enumerate(lives.items()):
        tables = {PLANT: np.array([rows[k] for k in sorted(rows)], dtype=float), CONTROLLER: answers.get(run)}
        for node, table in tables.items():
            if table is not None and len(table):
                pieces.add(node, life, first[node], table)
                first[node] += len(table)
    return pieces
