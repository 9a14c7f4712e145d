"""`servonode doctor` and `servonode bench`: what they find, say and end with."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.definitions import store
from servonode.operator import doctor
from servonode.operator.doctor import Finding, findings
from servonode.simulation import bench
from servonode.simulation.bench import BenchError, Measure, hand_loop, ping_pong
from tests.helpers.refusals import command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
SUBJECTS = ["system", "clock", "cores", "limits", "folders", "extras", "runs"]


def found(subject: str) -> list[Finding]:
    return [each for each in findings() if each.subject == subject]


def text_of(subject: str) -> str:
    return "\n".join(f"{each.level} {each.text}; {each.remedy}" for each in found(subject))


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and the cache have folders of their own."""
    for name, word in (("runs", "SERVONODE_RUNTIME_DIR"), ("cache", "XDG_CACHE_HOME")):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(word, str(tmp_path / name))
    return tmp_path


def test_it_speaks_of_all_and_ends_with_0() -> None:
    result = command("doctor")
    assert result.exit_code == 0, result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines() if line[0] != " "] == SUBJECTS
    printed = json.loads(command("doctor", "--json").stdout)
    assert printed["exit"] == 0
    assert list(dict.fromkeys(each["subject"] for each in printed["findings"])) == SUBJECTS
    assert all(each["remedy"] for each in printed["findings"] if each["level"] == "note")


def test_it_looks_at_a_container_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(doctor.os, "getloadavg", missing)
    monkeypatch.setattr("servonode.nodes.realtime_grants.Path", lambda place: Path(f"/missing{place}"))
    result = command("doctor")
    assert result.exit_code == 0, result.output
    assert "cores may be used\n" in result.stdout


def test_a_folder_of_runs_that_is_open_to_others_is_wrong(private: Path) -> None:
    (private / "runs").chmod(0o755)
    result = command("doctor")
    assert result.exit_code == 1
    assert "WRONG SERVONODE_RUNTIME_DIR" in result.stdout
    assert "open to others; set it to a folder of yours with mode 0700" in result.stdout


def test_a_relative_folder_of_runs_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVONODE_RUNTIME_DIR", "runs")
    assert "wrong SERVONODE_RUNTIME_DIR: runs is not an absolute path" in text_of("folders")


def test_a_folder_left_over_is_named_and_stays(private: Path) -> None:
    left = private / "runs" / "old"
    left.mkdir(mode=0o700)
    (left / "registry.json").write_text(json.dumps({"run": "old", "pid": 2**22 + 1, "start": 1}))
    assert f"note {left} is left over from a run that has ended" in text_of("folders")
    assert f"rm -r '{left}'" in text_of("folders")
    assert left.is_dir()


def test_a_cache_that_others_could_write_is_told(private: Path) -> None:
    root = store.cache_root()
    root.mkdir(parents=True)
    root.chmod(0o777)
    assert "which is not used: every start compiles anew" in text_of("folders")


def test_extras_that_are_missing_have_their_command(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = ['mujoco>=3.3; extra == "mujoco"', "nowhere_at_all>=1; extra == 'web'", "servonode[sweep]; extra == 'web'",
              'numpy>=2.0', 'mcap>=1.2; python_version < "3.15"', "pytest>=8; extra == 'test'"]  # fmt: skip
    monkeypatch.setattr(doctor, "requires", lambda _: stated)
    assert doctor._packages_by_extra() == {"mujoco": ["mujoco"], "web": ["nowhere_at_all"]}
    assert found("extras")[1] == Finding(
        "extras",
        "good",
        "web: nowhere_at_all not installed",
        'pip install "servonode[web]" (in a clone: uv sync --extra web)',
    )


def test_limits_and_governors_have_their_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "has_capability", lambda _: False)
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, 8192 if kind == resource.RLIMIT_MEMLOCK else 0))
    text = text_of("limits")
    assert "note real-time priority (rtprio) up to 0; run.priority is refused: add rtprio 99" in text
    assert "locked memory (memlock) up to 8 KiB; memory may be swapped out" in text
    assert "open files (nofile) up to 0; many listeners" in text
    monkeypatch.setattr(doctor, "_read", lambda place: "50000 100000" if place.endswith("cpu.max") else "")
    assert "gets 0.5 cores of time" in text_of("cores")


def test_the_timer_slack_of_the_caller_is_as_before() -> None:
    from servonode.nodes.realtime_grants import slack

    before = slack(77_000)
    try:
        found("clock")
        assert slack(77_000) == 77_000
    finally:
        slack(before)


# bench


def trailer() -> Any:
    return resolve(read_launch("trailer_pursuit_lockstep", ["run.duration=1"]))


def test_the_floors_are_measured_and_leave_nothing() -> None:
    loop, before = trailer(), len(list(Path("/proc/self/fd").iterdir()))
    taken = ping_pong(loop, 50, 0.001)
    assert taken.shape == (50,)
    assert ((taken > 0) & (taken < 5)).all()
    assert hand_loop(loop, 50) > 10
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_floor_whose_other_side_is_killed_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "GIVE_UP_MS", 200)
    monkeypatch.setattr(bench, "_echo", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(BenchError, match=r"has not answered for 0\.2 s"):
        ping_pong(trailer(), 5)


def test_the_hand_loop_is_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, seen = trailer(), []
    advance = loop.machine.advancer("rk4")

    def watched(k: int, n: int, step_ns: int, x: Any, u: Any, c: Any) -> bool:
        result = advance(k, n, step_ns, x, u, c)
        seen.append(x[:-1].copy())
        return bool(result)

    monkeypatch.setattr(loop.machine, "advancer", lambda _: watched)
    hand_loop(loop, 20)
    from servonode.simulation.simulate import simulate_fused

    monkeypatch.undo()
    run = simulate_fused(loop, 10)
    states = np.column_stack(list(run.state.values()))
    np.testing.assert_array_equal(np.array(seen), states[1:21])


def test_bench_shows_a_line_as_soon_as_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def some() -> Any:
        yield Measure("round trip", "us", 141.2, 100.0, "bare")
        yield Measure("lateness", "us", 57.94, None)
        raise BenchError("the run failed")

    monkeypatch.setattr(bench, "measures", some)
    result = command("bench")
    assert result.exit_code == 1
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["round", "trip", "141", "us", "100", "bare", "(ratio", "1.41)"], ["lateness", "57.9", "us"],
    ]  # fmt: skip
    assert result.stderr == "servonode: the run failed\n"


def test_a_run_that_fails_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = resolve(read_launch("trailer_pursuit_lockstep", ["run.duration=1", "plant.state_limit=1"][:1]))

    class Failed:
        signal, run, exit_code, stopped = None, None, 1, ""
        faults = ({"text": "no fresh command"},)

    monkeypatch.setattr(bench, "Launcher", lambda *_: type("L", (), {"launch": lambda _: Failed})())
    with pytest.raises(BenchError, match="nothing was measured: no fresh command; end what keeps"):
        bench._run(loop)
