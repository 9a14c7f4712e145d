"""Where things stand in a row of the plant's record."""

from servonode.plants import load_machine
from servonode.plants.record_layout import PlantRecordLayout


def test_the_parts_of_a_row_lie_one_behind_the_other() -> None:
    machine = load_machine("diff_drive_trailer", {}, {}).description
    row = PlantRecordLayout.of(machine)
    assert (row.step, row.state, row.work, row.inputs) == (slice(0, 1), slice(1, 9), slice(9, 10), slice(10, 12))
    assert (row.goal_step, row.age, row.size) == (slice(12, 13), slice(13, 14), 14)
    assert (row.x, row.computed, row.stamps) == (slice(1, 10), slice(0, 12), slice(12, 14))
    columns = row.columns(machine)
    assert columns[row.x] == [*machine.state_names, "work"]
    assert columns[row.inputs] == ["U1", "U2"]
    assert [columns[0], *columns[row.stamps]] == ["k", "goal_k", "age"]
