"""Sweeps on dask clusters: the bits of threads, sources as texts, and one line for whatever a cluster can do wrong."""

import errno
import re
import shutil
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.cli.create import IN_PYTHON, make
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.launch_file import launch_of_table, read_launch, with_section
from servonode.definitions.progress import progress_of
from servonode.version import VERSION
from servonode.wings.explore.sweeps import cluster as of_dask
from servonode.wings.explore.sweeps.chunk import Chunk, run_chunk
from servonode.wings.explore.sweeps.cluster import ClusterError, _cluster_errors, checked, compute, texts_of
from servonode.wings.explore.sweeps.plan import Plan
from tests.helpers.extras import needs_mujoco, of_sweeps
from tests.helpers.refusals import command, line_of

of_sweeps("distributed")

REMEDY = "the finished chunks of a sweep with an output folder are kept: go on with --resume (resume=True)"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def own_plan(folder: Path, name: str = "crane") -> Plan:
    """A sweep of a machine of the user's own, which imports a source beside it."""
    folder.mkdir(exist_ok=True)
    make(IN_PYTHON, name, folder)
    machine = folder / f"{name}.py"
    machine.write_text(machine.read_text().replace("default=2.0", "default=MASS").replace(
        "from servonode.mechanics import", "from weights import MASS\n\nfrom servonode.mechanics import"
    ))  # fmt: skip
    (folder / "weights.py").write_text("MASS = 3.0\n")
    launch = read_launch(folder / f"{name}.toml", ["run.duration=0.1"])
    vary = {"plant.parameters.m": {"low": 0.2, "high": 0.8, "points": 4}}
    return Plan(resolve(with_section(launch, "sweep", {"vary": vary})))


def test_a_worker_needs_no_file_of_the_user(tmp_path: Path) -> None:
    plan = own_plan(tmp_path / "mine")
    assert plan.closed_loop.machine.parameters["M"] == 3.0
    texts = texts_of(plan, send_code=True)
    assert {name for name, _ in texts.sources} == {"crane.py", "weights.py"}
    expected = run_chunk(plan.variation, plan.values(0), plan.measures)
    shutil.rmtree(tmp_path / "mine")
    found = compute(texts, plan.values(0))
    assert found.reasons == [""] * 4
    for name, values in expected.measures.items():
        np.testing.assert_array_equal(found.measures[name], values)


def test_a_worker_has_each_run_prepared_by_the_machine_as_threads_have() -> None:
    """The hoop's preparation lays q on the profile at the s of each run."""
    vary = {"plant.initial.s": {"values": [0.0, 1.0]}}
    plan = Plan(resolve(with_section(read_launch("hoop_rolls", ["run.duration=0.2"]), "sweep", {"vary": vary})))
    found = compute(texts_of(plan, send_code=False), plan.values(0))
    expected = run_chunk(plan.variation, plan.values(0), plan.measures)
    assert found.reasons == expected.reasons == ["", ""]
    assert np.ptp(expected.measures["residual_energy_final"]) > 0
    for name, values in expected.measures.items():
        np.testing.assert_array_equal(found.measures[name], values)


@pytest.fixture(scope="module")
def honest() -> tuple[Plan, Chunk]:
    plan = Plan(resolve(read_launch("trailer_sweep", ["sweep.runs=4", "run.duration=0.1"])))
    return plan, run_chunk(plan.variation, plan.values(0), plan.measures)


def changed(chunk: Chunk, change: Callable[[Any], Any], names: Sequence[str] = ()) -> Chunk:
    return replace(chunk, measures={k: change(v) if k in names or not names else v for k, v in chunk.measures.items()})


LIES: dict[str, tuple[Callable[[Chunk], Any], str]] = {
    "nothing": (lambda _: None, "no results of the runs"),
    "short": (lambda c: replace(c, values=c.values[:1]), "no results of the runs"),
    "texts": (lambda c: replace(c, values=c.values.astype(str)), "no results of the runs"),
    "permuted": (lambda c: replace(c, values=c.values[::-1]), "no results of the runs"),
    "last bit": (lambda c: replace(c, values=np.nextafter(c.values, 9)), "no results of the runs"),
    "one row": (lambda c: changed(c, lambda v: v[:1]), "a measure residual_"),
    "whole": (lambda c: changed(c, lambda _: np.zeros(4, int), ["hitch"]), "a measure hitch that"),
    "objects": (lambda c: changed(c, lambda v: v.astype(object), ["hitch"]), "a measure hitch that"),
    "faults": (lambda c: changed(c, lambda _: np.array([1, 2, 3, 4], object), ["fault"]), "a measure fault that"),
    "missing": (lambda c: replace(c, measures={}), "measures that no 4 runs"),
    "extra": (lambda c: replace(c, measures={**c.measures, "../x": c.values[:, 0]}), "measures that no 4 runs"),
    "nan": (lambda c: changed(c, lambda v: v * np.nan, ["duration"]), "reasons, faults and durations"),
    "no fault": (lambda c: replace(c, reasons=["", "x", "", ""]), "reasons, faults and durations"),
    "escapes": (lambda c: replace(c, reasons=["\x1b[31m"] * 4), "reasons that no 4 runs"),
    "long": (lambda c: replace(c, reasons=[""] * 5), "reasons that no 4 runs"),
    "histories": (lambda c: replace(c, histories={"phi": c.values}), "histories that no 4 runs"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_comes_back_is_checked_against_what_was_sent(honest: tuple[Plan, Chunk], lie: str) -> None:
    plan, chunk = honest
    assert checked(plan, 0, chunk) is chunk
    make_lie, said = LIES[lie]
    with pytest.raises(ClusterError, match=re.escape(said)) as raised:
        checked(plan, 0, make_lie(chunk))
    assert "\n" not in str(raised.value)


def test_histories_that_come_back_are_of_the_runs_that_were_sent() -> None:
    launch = read_launch("trailer_sweep", ["sweep.runs=2", "run.duration=0.1"])
    plan = Plan(resolve(launch), histories=True)
    chunk = run_chunk(plan.variation, plan.values(0), plan.measures)
    assert checked(plan, 0, chunk) is chunk
    for wrong in (lambda v: v[:1], lambda v: v[0], lambda v: np.repeat(v, 2, axis=1), lambda _: "x"):
        with pytest.raises(ClusterError, match="histories that no 2 runs"):
            checked(plan, 0, replace(chunk, histories={k: wrong(v) for k, v in chunk.histories.items()}))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"HTTP/1.1 200 OK", "which is no length of a greeting"),
        ((2**33).to_bytes(8, "little"), "it begins with 8589934592"),
        (b"abc", "no length of a greeting"),
        (None, "timed out"),
    ],
)
def test_what_is_no_scheduler_is_one_line(sent: bytes | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_dask, "CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        pool.submit(lambda: answered(stack.enter_context(server.accept()[0]), sent))
        client = of_dask._client(None, f"tcp://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(ClusterError, match=rf"there is no dask scheduler at tcp://.*{said}"):
            client.__enter__()


def answered(peer: socket.socket, sent: bytes | None) -> None:
    if sent is not None:
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)


def test_a_cluster_without_a_worker_is_said_once(honest: tuple[Plan, Chunk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_dask, "LOOK_S", 0.01)
    plan, chunk = honest

    class Answer:
        def result(self) -> Chunk:
            return chunk

        def release(self) -> None:
            pass

    client = SimpleNamespace(nthreads=dict, submit=lambda *_, **__: Answer())
    looks = iter([False, False, True])

    def wait(futures: list[Any], **_: Any) -> Any:
        if not next(looks):
            raise TimeoutError
        return SimpleNamespace(done=set(futures))

    monkeypatch.setattr("distributed.wait", wait)
    told = list[object]()
    with progress_of("sweep", progress=lambda *given: told.append(given)):
        assert list(of_dask._chunks(client, plan, texts_of(plan, False), iter([0]))) == [(0, chunk)]
    assert told == [(0, 0, of_dask.WAITING)]


def test_data_of_a_sources_name_go_with_it_and_belong_to_what_is_resumed(tmp_path: Path) -> None:
    """The worker reads the same number; what is not of its name, such as a result, is left out."""
    folder = tmp_path / "mine"
    own_plan(folder)
    weights, data = folder / "weights.py", folder / "weights.csv"
    weights.write_text('from pathlib import Path\n\nMASS = float(Path(__file__).with_suffix(".csv").read_text())\n')
    data.write_text("3.5\n")
    for other in ("weights.html", "crane.csv", "weights.new"):
        (folder / other).write_text("2.5\n")
    launch = read_launch(folder / "crane.toml", ["run.duration=0.1"])
    launch = with_section(launch, "sweep", {"vary": {"plant.parameters.m": {"values": [0.3]}}})
    plan = Plan(resolve(launch))
    assert plan.closed_loop.machine.parameters["M"] == 3.5
    texts, before = texts_of(plan, send_code=True), plan.closed_loop.source.definition.digest()
    assert {name for name, _ in texts.sources} == {"crane.py", "weights.py", "weights.csv"}
    expected = run_chunk(plan.variation, plan.values(0), plan.measures).measures["effort_F"]
    data.write_text("9.0\n")
    assert plan.closed_loop.source.definition.digest() != before
    assert compute(texts, plan.values(0)).measures["effort_F"] == expected
    data.write_text("3.5\n")
    (folder / "weights.html").write_text("another report\n")
    assert plan.closed_loop.source.definition.digest() == before


def test_a_robots_file_goes_to_the_workers_with_what_it_includes(tmp_path: Path) -> None:
    """As text, not as code."""
    needs_mujoco()
    mine, robots = tmp_path / "mine", tmp_path / "mine" / "robots"
    robots.mkdir(parents=True)
    body = '<body name="b"><joint name="j"/><geom size=".1" pos=".2 0 0"/></body>'
    (robots / "part.xml").write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    (robots / "robot.xml").write_text('<mujoco><include file="part.xml"/></mujoco>')
    table = {"run": {"duration": 0.1}, "plant": {"machine": "robots/robot.xml", "initial": {"j": 0.3}}}
    vary = {"vary": {"plant.parameters.b.mass": {"values": [0.3, 0.6]}}}
    plan = Plan(resolve(with_section(launch_of_table(table, path=mine / "a.toml"), "sweep", vary)))
    texts = texts_of(plan, send_code=False)
    assert [name for name, _ in texts.sources] == ["robots/part.xml", "robots/robot.xml"]
    expected = run_chunk(plan.variation, plan.values(0), plan.measures)
    shutil.rmtree(mine)
    found = compute(texts, plan.values(0))
    assert found.reasons == ["", ""]
    for name, values in expected.measures.items():
        np.testing.assert_array_equal(found.measures[name], values)


def test_meshes_that_touch_in_mujoco_are_not_sent(tmp_path: Path) -> None:
    needs_mujoco()
    shape = '<geom size=".1" pos=".2 0 0"/><geom type="mesh" mesh="m" mass="0"/>'
    body = f'<body name="b"><joint name="j"/>{shape}</body>'
    asset = '<asset><mesh name="m" file="m.stl"/></asset>'
    (tmp_path / "robot.xml").write_text(f"<mujoco>{asset}<worldbody>{body}</worldbody></mujoco>")
    table = {"run": {"duration": 0.1}, "plant": {"machine": "robot.xml", "driver": "mujoco"}}
    vary = {"vary": {"plant.parameters.b.mass": {"values": [0.3, 0.6]}}}
    launch = with_section(launch_of_table(table, path=tmp_path / "a.toml"), "sweep", vary)
    with pytest.raises(LaunchError, match=r"robot\.xml has meshes \(b: m\.stl\), which workers would lack"):
        texts_of(Plan(resolve(launch)), send_code=False)


def test_sources_in_other_folders_keep_their_places(tmp_path: Path) -> None:
    own_plan(tmp_path / "machines")
    (tmp_path / "launch").mkdir()
    launch = tmp_path / "launch" / "crane.toml"
    text = (tmp_path / "machines" / "crane.toml").read_text()
    launch.write_text(text.replace('"./crane.py:model"', '"../machines/crane.py:model"'))
    assert "../machines" in launch.read_text()
    vary = {"vary": {"plant.parameters.m": {"values": [0.3]}}}
    plan = Plan(resolve(with_section(read_launch(launch, ["run.duration=0.1"]), "sweep", vary)))
    texts = texts_of(plan, send_code=True)
    assert (texts.folder, [name for name, _ in texts.sources]) == (
        "launch", ["machines/crane.py", "machines/weights.py"],
    )  # fmt: skip
    expected = run_chunk(plan.variation, plan.values(0), plan.measures)
    shutil.rmtree(tmp_path / "machines")
    assert compute(texts, plan.values(0)).measures["effort_F"] == expected.measures["effort_F"]


def test_code_is_sent_only_when_the_user_says_so(tmp_path: Path) -> None:
    plan = own_plan(tmp_path)
    with pytest.raises(LaunchError) as refusal:
        texts_of(plan, send_code=False)
    assert str(refusal.value) == (
        f"{tmp_path / 'crane.toml'} [plant] machine: './crane.py:model' is Python code of yours, which would run on "
        "the workers; say so with --send-code (send_code=True), or compute with --threads"
    )
    packaged = Plan(resolve(read_launch("trailer_sweep")))
    assert texts_of(packaged, send_code=False).sources == ()


def test_what_was_not_sent_as_code_does_not_run_on_a_worker(tmp_path: Path) -> None:
    plan = own_plan(tmp_path)
    with pytest.raises(LaunchError, match="is Python code"):
        compute(replace(texts_of(plan, send_code=True), code=False), plan.values(0))


def test_a_function_of_a_notebook_cannot_be_sent() -> None:
    from tests.helpers.small_machines import cart_pole

    loop = servonode.load({"run": {"duration": 0.1}, "plant": {"machine": cart_pole}})
    with pytest.raises(LaunchError, match="is a function of this process, which workers do not have; write it into a"):
        loop.sweep({"plant.parameters.m": {"values": [0.3]}}, workers=1, send_code=True)


def test_a_worker_whose_disk_is_full_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no failure of the connection, which the client would make of an OSError."""
    plan = Plan(resolve(read_launch("trailer_sweep", ["run.duration=0.102"])))

    def full(**_: str) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")

    monkeypatch.setattr("servonode.wings.explore.sweeps.cluster.tempfile.mkdtemp", full)
    with pytest.raises(ClusterError) as failure:
        compute(texts_of(plan, send_code=False), plan.values(0))
    text = "(No space left on device: /tmp/x); make room or correct that on its computer"
    assert str(failure.value) == f"a worker cannot use a file of its own {text}"


def test_a_scheduler_without_servonode_is_told_in_words() -> None:
    """The words with which dask's scheduler fails where it cannot import what it is sent."""
    said = "\nError during deserialization of the task graph. This frequently\noccurs if the Scheduler and Client"
    with pytest.raises(ClusterError) as failure, _cluster_errors():
        raise RuntimeError(said)
    text = f"the scheduler cannot read the work; install servonode {VERSION} on scheduler and workers"
    assert str(failure.value) == f"{text}; {REMEDY}"
    with pytest.raises(RuntimeError, match="another one"), _cluster_errors():
        raise RuntimeError("another one")


def test_a_worker_of_another_version_refuses() -> None:
    plan = Plan(resolve(read_launch("trailer_sweep", ["run.duration=0.1"])))
    texts = replace(texts_of(plan, send_code=False), version="0.0.1")
    with pytest.raises(ClusterError, match=r"a worker has servonode \S+, this computer 0.0.1; install the same"):
        compute(texts, plan.values(0))


@pytest.mark.parametrize("address", [pytest.param("tcp://127.0.0.1:9", marks=pytest.mark.slow), "nonsense"])
def test_a_scheduler_that_is_not_there_is_named_with_what_helps(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.wings.explore.sweeps.cluster.CONNECT_S", 1.0)
    line = line_of(command("sweep", "trailer_sweep", "--scheduler", address), code=1)
    assert line.startswith(f"there is no dask scheduler at {address} (")
    assert line.endswith("); start one with dask scheduler, or compute here with --threads or --workers")
    assert list(Path().iterdir()) == []
