"""docs/reference/outputs.md names every key of `servonode sweep --json`, and none that is not there."""

from pathlib import Path

from tests.docs.test_outputs import printed, unknown, unused
from tests.helpers.extras import of_sweeps


def test_every_key_of_sweep_is_in_the_table_and_every_entry_is_used(tmp_path: Path) -> None:
    of_sweeps("xarray")
    vary = ("--set", "sweep.vary.plant.parameters.m1=[-1.0,4.0]", "--runs", "8", "--set", "run.duration=0.1")
    found = printed("sweep", "trailer_sweep", *vary, "--output", str(tmp_path / "a.zarr"))
    assert unknown("`sweep --json`", found) == set()
    assert unused("`sweep --json`", found) == set()
