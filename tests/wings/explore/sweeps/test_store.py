"""Sweeps in memory and in folders: the same results, whole after whatever happens; what is there is never lost."""

import fcntl
import os
import shutil
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch, with_section
from servonode.definitions.progress import progress_of
from servonode.errors import StatementError
from servonode.loop import Loop
from servonode.wings.explore.sweeps.plan import Plan
from servonode.wings.explore.sweeps.run_sweep import Store, StoreError, StoreFull, Where, run_sweep
from tests.helpers.extras import of_sweeps

xarray = of_sweeps("xarray")
zarr = of_sweeps("zarr")

PHI, M1, SEED = "plant.initial.phi", "plant.parameters.m1", "run.seed"
VARY = {PHI: {"low": -0.8, "high": 0.8, "points": 5}, M1: {"values": [4.0, -1.0]}}  # half of the runs are refused
HITCH = {"hitch": "max(abs(phi))"}


@pytest.fixture(scope="module")
def loop() -> Loop:
    return servonode.load("trailer_pursuit", run__duration=0.2)


@pytest.fixture(scope="module")
def in_memory(loop: Loop) -> xarray.Dataset:
    return swept(loop)


def swept(loop: Loop, **more: Any) -> xarray.Dataset:
    """Ten runs in five chunks."""
    return loop.sweep(VARY, **{"chunk": 2, "measures": HITCH, "threads": 1, **more})


def test_a_sweep_has_what_simulations_of_its_runs_give(loop: Loop, in_memory: xarray.Dataset) -> None:
    assert in_memory.sizes == {"run": 10}
    for i, (phi, m1) in enumerate(zip(in_memory[PHI].values, in_memory[M1].values, strict=True)):
        found = in_memory.isel(run=i)
        if m1 < 0:
            assert found.fault == "refused"
            assert "m1: -1 kg must be greater than 0" in str(found.reason.item())
            assert np.isnan(found.hitch)
            continue
        run = loop.simulate(values={PHI: phi, M1: m1})
        assert (found.fault.item(), found.reason.item()) == ("", "")
        assert found.residual_heading_largest == run.residual_max["heading"]
        assert found.hitch == abs(run.state["phi"]).max()


def test_keys_are_coordinates_and_a_grid_unstacks_into_their_dimensions(in_memory: xarray.Dataset) -> None:
    assert in_memory[PHI].attrs["units"] == "rad"
    assert in_memory[M1].attrs["units"] == "kg"
    assert in_memory.residual_heading_largest.attrs["units"] == "rad"
    grid = in_memory.set_index(run=in_memory.attrs["keys"]).unstack("run")
    assert grid.sizes == {PHI: 5, M1: 2}
    np.testing.assert_allclose(grid[PHI], np.linspace(-0.8, 0.8, 5))
    assert grid.hitch.sel({M1: 4.0}).notnull().all()
    assert in_memory.to_dataframe().loc[9, PHI] == 0.8


@pytest.mark.parametrize("more", [{"chunk": 3}, {"chunk": 10}, {"threads": 2}], ids=str)
def test_the_bits_are_the_same_in_whatever_chunks_and_threads(
    loop: Loop, in_memory: xarray.Dataset, more: dict[str, int]
) -> None:
    assert swept(loop, **more).equals(in_memory)


def test_a_folder_holds_the_dataset_and_xarray_reads_it_without_a_warning(
    loop: Loop, in_memory: xarray.Dataset, tmp_path: Path
) -> None:
    returned = swept(loop, output=tmp_path / "a.zarr")
    assert returned.identical(in_memory)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xarray.open_zarr(tmp_path / "a.zarr", chunks=None)
    assert {PHI, M1, "run"} == set(found.coords)
    assert found.load().equals(in_memory)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.zarr"]
    assert (tmp_path / "a.zarr" / "hitch" / "c").is_dir()
    assert zarr.open_array(tmp_path / "a.zarr" / "hitch").chunks == (2,)


def test_times_of_histories_are_those_of_a_run_to_the_bit() -> None:
    whole = servonode.load("trailer_pursuit", run__duration=10.0)
    np.testing.assert_array_equal(whole.sweep({PHI: np.array([0.1])}, histories=True).t, whole.simulate().t)


def test_histories_are_the_columns_of_each_run(loop: Loop, tmp_path: Path) -> None:
    found = swept(loop, histories=True, output=tmp_path / "a.zarr")
    assert found.phi.dims == ("run", "t")
    run = loop.simulate(values={PHI: float(found[PHI][2])})
    np.testing.assert_array_equal(found.phi.isel(run=2), run.state["phi"])
    np.testing.assert_array_equal(found.t, run.t)
    assert found.phi.isel(run=3).isnull().all()  # refused
    assert found.phi.attrs["units"] == "rad"
    assert swept(loop, histories=True).equals(found)
    assert not loop.closed_loop.launch.more  # its own launch file is as it was


class Broken(Exception):
    """What a test has raised in place of a write."""


def failure_after(n: int, error: Exception, work: Callable[[], object]) -> Exception | None:
    """What some work raises where only the first n files can be put into their places; None: they suffice."""
    moves, replace = 0, Path.replace

    def move(self: Path, target: Path) -> Path:
        nonlocal moves
        moves += 1
        if moves > n:
            raise error
        return replace(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", move)
        try:
            work()
        except Exception as failure:  # noqa: BLE001
            return failure
    return None


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Broken()], ids=["full disk", "anything"])
@pytest.mark.slow
def test_whichever_write_fails_finished_chunks_stay_and_resume_gives_the_same(
    loop: Loop, in_memory: xarray.Dataset, tmp_path: Path, error: Exception
) -> None:
    files = len(in_memory.variables) + 1  # of a chunk, with its digest
    finished = set()
    for n in range(0, 20 * files, 13):
        folder = tmp_path / f"{n}.zarr"
        failure = failure_after(n, error, lambda: swept(loop, output=folder))  # noqa: B023  (called at once)
        if failure is None:
            break
        if isinstance(error, OSError):
            assert isinstance(failure, StoreFull)
            text = f"{folder}: cannot be written (No space left on device); the finished chunks in it are kept"
            assert str(failure).startswith(text)
            assert failure.exit_code == 1
        if folder.exists():
            marks = np.flatnonzero(zarr.open_array(folder / "progress" / "digests")[:])
            finished.add(len(marks))
            kept = xarray.open_zarr(folder, chunks=None).load()
            whole = np.isin(np.arange(10) // 2, marks)
            assert kept.isel(run=whole).equals(in_memory.isel(run=whole))
        assert swept(loop, output=folder, resume=True).identical(in_memory)
        assert [each.name for each in tmp_path.iterdir()] == [folder.name]
        for file in sorted(tmp_path.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
    else:
        pytest.fail("no sweep came to its end")
    assert finished == {0, 1, 2, 3, 4}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:7])


def flip(file: Path) -> None:
    file.write_bytes(bytes(each ^ 16 for each in file.read_bytes()))


@pytest.mark.parametrize("damage", [Path.unlink, cut, flip])
@pytest.mark.parametrize("name", ["hitch", M1, "progress/digests"])
def test_resume_computes_each_lost_or_damaged_chunk_again_and_no_other(
    loop: Loop, tmp_path: Path, damage: Callable[[Path], object], name: str
) -> None:
    three = read_launch("trailer_pursuit", ["run.duration=0.1"])
    changed = {"vary": {M1: {"values": [3.0, 4.0, 5.0]}}, "chunk": 2, "measures": HITCH}
    plan = Plan(resolve(with_section(three, "sweep", changed)))
    expected = run_sweep(plan, Where(threads=1), tmp_path / "a.zarr").load()
    for index, runs in ((0, 2), (1, 1)):
        damage(tmp_path / "a.zarr" / name / "c" / f"{index}")
        told = list[tuple[int, int]]()
        with progress_of("sweep", progress=lambda *done_of: told.append(done_of[:2])):  # noqa: B023
            again = run_sweep(plan, Where(threads=1), tmp_path / "a.zarr", resume=True)
        assert (told[0], told[-1]) == ((3 - runs, 3), (3, 3))
        assert again.load().identical(expected)


@pytest.mark.parametrize("file", ["zarr.json", "hitch/zarr.json", "progress/digests/zarr.json"])
@pytest.mark.parametrize("text", ["[" * 100_000, "{}", '{"zarr_format": 3, "node_type": "group", "attributes": []}'])
def test_damaged_metadata_are_one_line(loop: Loop, tmp_path: Path, file: str, text: str) -> None:
    swept(loop, output=tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / file).write_text(text)
    with pytest.raises(StoreError, match=r"a.zarr: holds no sweep of servonode; give another folder"):
        swept(loop, output=tmp_path / "a.zarr", resume=True)


def test_a_folder_is_not_overwritten(loop: Loop, tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    swept(loop, output=folder)
    with pytest.raises(StoreError, match=r"it is there already; go on with it by --resume \(resume=True\), or give"):
        swept(loop, output=folder)


def test_a_folder_that_another_process_made_meanwhile_is_not_overwritten(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, missing = tmp_path / "a.zarr", Store.missing

    def made_meanwhile(store: Store) -> list[int]:
        folder.mkdir()
        (folder / "theirs").touch()
        return missing(store)

    monkeypatch.setattr(Store, "missing", made_meanwhile)
    with pytest.raises(StoreError, match="it is there already; go on with it by --resume") as raised:
        swept(loop, output=folder)
    assert not isinstance(raised.value, StoreFull)
    assert [each.name for each in tmp_path.rglob("*")] == ["a.zarr", "theirs"]


def test_a_folder_that_is_deleted_meanwhile_is_named(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, write = tmp_path / "a.zarr", Store.write

    def written_and_deleted(store: Store, index: int, chunk: Any) -> None:
        write(store, index, chunk)
        shutil.rmtree(folder)

    monkeypatch.setattr(Store, "write", written_and_deleted)
    with pytest.raises(StoreError, match=r"a\.zarr: was deleted or changed while the sweep was computed; begin again"):
        swept(loop, output=folder)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("more", "differences"),
    [
        ({"measures": {}}, "sweep.measures.hitch is max(abs(phi)) there and absent here"),
        ({"chunk": 3}, "sweep.chunk is 2 there and 3 here"),
        ({"histories": True}, "histories is 0 there and 1 here"),
    ],
    ids=["measures", "chunk", "histories"],
)
def test_another_sweep_is_refused_with_the_differences(
    loop: Loop, tmp_path: Path, more: dict[str, Any], differences: str
) -> None:
    folder = tmp_path / "a.zarr"
    swept(loop, output=folder)
    with pytest.raises(StoreError) as refusal:
        swept(loop, output=folder, resume=True, **more)
    assert str(refusal.value) == f"{folder}: holds another sweep: {differences}; give another folder"


@pytest.mark.parametrize(
    ("name", "changed", "difference"),
    [
        ("versions", "numpy 1.0.0, scipy {scipy}, llvmlite {llvmlite}", "numpy is 1.0.0 there and {numpy} here"),
        ("versions", "numpy {numpy}, scipy {scipy}, llvmlite 0.1", "llvmlite is 0.1 there and {llvmlite} here"),
        ("chunk", 7, "sweep.chunk is 7 there and 10 here"),
    ],
)
def test_libraries_and_chunks_of_another_sweep_are_refused(
    loop: Loop, tmp_path: Path, name: str, changed: Any, difference: str
) -> None:
    """Other libraries may give other bits; chunks of another size are not those that the marks count."""
    folder = tmp_path / "a.zarr"
    loop.sweep(VARY, threads=1, output=folder)
    versions = {each: version(each) for each in ("numpy", "scipy", "llvmlite")}
    changed = changed.format(**versions) if isinstance(changed, str) else changed
    zarr.open_group(folder, mode="r+", use_consolidated=False).attrs[name] = changed
    with pytest.raises(StoreError) as refusal:
        loop.sweep(VARY, threads=1, output=folder, resume=True)
    expected = difference.format(**versions)
    assert str(refusal.value) == f"{folder}: holds another sweep: {expected}; give another folder"


def test_a_chunk_may_be_stated_that_was_not(loop: Loop, tmp_path: Path) -> None:
    begun = loop.sweep(VARY, threads=1, output=tmp_path / "a.zarr").load()
    assert loop.sweep(VARY, threads=1, output=tmp_path / "a.zarr", resume=True, chunk=10).equals(begun)


def test_the_launch_file_of_a_dataset_gives_the_same_sweep_in_the_same_order(loop: Loop, tmp_path: Path) -> None:
    three = {"low": -0.1, "high": 0.1, "points": 3}
    vary = {M1: [3.0, 5.0], "goal.speed": {"values": [1.0, 2.0]}, SEED: [1, 9]}
    found = loop.sweep(vary, method="random", runs=3)
    file = tmp_path / "again.toml"
    file.write_text(found.attrs["launch"])
    again = servonode.sweep(file)
    assert again.attrs["keys"] == found.attrs["keys"] == [M1, "goal.speed", SEED]
    assert again.equals(found)
    grid = loop.sweep({PHI: three, SEED: [1, 2]}, output=tmp_path / "a.zarr")
    file.write_text(grid.attrs["launch"])
    assert servonode.sweep(file).equals(grid)
    with pytest.raises(StoreError, match=r"holds another sweep: the keys have another order; give another folder"):
        loop.sweep({SEED: [1, 2], PHI: three}, output=tmp_path / "a.zarr", resume=True)


def test_many_differences_are_counted(loop: Loop, tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    swept(loop, output=folder)
    other = servonode.load("trailer_pursuit", run__duration=0.1, plant__integrator="heun", run__seed=3)
    with pytest.raises(StoreError) as refusal:
        other.sweep({PHI: [0.0, 1.0]}, method="sobol", runs=10, output=folder, resume=True)
    assert "run.duration is 0.2 there and 0.1 here, run.seed is 1 there and 3 here" in str(refusal.value)
    assert ", and 9 more; give another folder" in str(refusal.value)


def test_what_is_no_sweep_is_left_alone(loop: Loop, tmp_path: Path) -> None:
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"a.zarr: holds no sweep of servonode; give another folder"):
        swept(loop, output=tmp_path / "a.zarr", resume=True)
    xarray.Dataset({"x": ("run", [1.0])}).to_zarr(tmp_path / "b.zarr", consolidated=False)
    with pytest.raises(StoreError, match=r"b.zarr: holds no sweep of servonode; give another folder"):
        swept(loop, output=tmp_path / "b.zarr", resume=True)
    with pytest.raises(StoreError, match=r"its folder does not exist or cannot be written; give another"):
        swept(loop, output=tmp_path / "none" / "c.zarr")
    with pytest.raises(StatementError, match="resume needs the folder of a sweep that was begun"):
        swept(loop, resume=True)
    assert (tmp_path / "a.zarr" / "mine.txt").read_text() == "mine"


def test_one_process_at_a_time_writes_to_a_folder(loop: Loop, tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    expected = swept(loop, output=folder)
    other = os.open(folder, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(StoreError, match="another process is computing this sweep; wait for its end"):
        swept(loop, output=folder, resume=True)
    os.close(other)
    assert swept(loop, output=folder, resume=True).identical(expected)


def test_every_run_may_have_a_seed_of_its_own(loop: Loop) -> None:
    noisy = servonode.load("trailer_pursuit", run__duration=0.1, plant__sensor__noise=1e-3)
    found = noisy.sweep({SEED: [1, 6], PHI: {"values": [0.0, 0.1]}})
    assert found.sizes["run"] == 12
    rough = found.residual_heading_largest.values.round(9)  # the hitch angle changes the last digits
    assert (rough[::2] == rough[1::2]).all()
    assert len(set(rough.tolist())) == 6
    run = noisy.simulate(values={SEED: 4, PHI: 0.1})
    assert found.residual_heading_largest[7] == run.residual_max["heading"]
