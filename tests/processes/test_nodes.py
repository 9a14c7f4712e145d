"""How nodes start, run, die, freeze and come back: what ends a run, what acts then, and that nothing of it is left."""

import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.api import override_texts
from servonode.bus import Applied, Bus, BusError, Command, Status
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from tests.helpers.ports import free_port
from tests.helpers.runs import NODES, RESTARTED, START_S, Process, Runs, Watch, eventually, signalled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
LAUNCH = "trailer_pursuit"
WAITS = 'plant.safety.on_fault="wait"'
W_S = 5  # s, the command timeout: no computer is as busy as that
COMMON = ("run.speed=1", "run.duration=600", f"plant.safety.command_timeout={W_S}", "plant.safety.lateness_limit=10",
          "plant.safety.safe_time=0.1", "run.lockstep_timeout=5")  # fmt: skip


def active(runs: Runs, *settings: str, **options: Any) -> Process:
    """A run whose plant is active."""
    run = runs.start(LAUNCH, *COMMON, *settings, **options)
    run.wait_open(START_S)
    assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S), run.stderr
    return run


def assert_safe_action(run: Process, since: float) -> None:
    """The record ends under the machine's safe action, computed from each row's own state."""
    machine, columns = servonode.load(LAUNCH).machine, run.columns
    rows = np.flatnonzero(columns["t"] >= since)[:-1]  # the last row has no input of its own
    assert len(rows) >= 50
    states = np.array([columns[name] for name in machine.description.state_names]).T
    for row in rows:
        expected = machine.safe_input(columns["t"][row], np.append(states[row], 0.0))
        found = [columns[name][row] for name in machine.description.input_names]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


# runs that complete


@pytest.mark.parametrize(
    "more", [{}, {"controller__keep": {"slow": "0.05 - V"}, "controller__limits": "keep"}], ids=["plain", "keeps"]
)
def test_lockstep_over_sockets_ends_in_the_bits_of_the_simulation(runs: Runs, more: dict[str, Any]) -> None:
    options: dict[str, Any] = {
        "run__duration": 5.003, "run__seed": 5, "run__lockstep_timeout": 60.0, "controller__delay": 2,
        "plant__actuator__limit": 0.01, "plant__sensor__noise": {"psi": 0.001}, **more,
    }  # fmt: skip
    process = runs.start("trailer_pursuit_lockstep", *override_texts(options))
    process.ends_with(0, START_S)
    run = servonode.simulate("trailer_pursuit_lockstep", every=1, **options)
    residuals = {f"residual_{name}": values for name, values in run.residual.items()}
    expected = {"t": run.t, **run.state, **run.input, **residuals, **run.kept, "energy": run.energy}
    found = process.columns
    assert list(found) == list(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name].view(np.int64), column.view(np.int64), name)
    printed, final = process.printed, run.final()
    for key in ("t", "state", "input", "residual", "output", "energy", "steps", "residual_max"):
        assert printed[key] == final[key]
    assert (printed["misses"], printed["exit"], printed["fault"]) == (0, 0, None)
    assert printed.get("keeps", {}) == run.keeps
    assert not more or run.keeps["slow"]["acted"] > 10


# deaths


def test_promises_01_02_a_frozen_controller_is_as_good_as_dead_and_a_dead_one_leaves_the_safe_action(
    runs: Runs,
) -> None:
    run = active(runs, WAITS, words=("--every", "1"))
    one_thread_each(run)
    with Watch(run.name) as watch:
        frozen = run.kill(CONTROLLER, signal.SIGSTOP)
        status = watch.status("fault", frozen, within_s=START_S)
        assert status.fault == "stale_command"
        run.kill(CONTROLLER, signal.SIGCONT)
        assert "reset it first" in run.ask("arm")["refused"]
        assert run.order("reset") == "inactive"
        assert run.arm(watch).run != status.run
        watch.forget()
        killed = run.kill(CONTROLLER)
        status = watch.status("fault", killed, within_s=START_S)
        assert (status.fault, status.safe_state) == ("stale_command", "damp")
        first = next(each for each in watch.of(Applied, killed) if "fault:stale_command" in each.reasons)
        assert first.mono <= status.mono
        assert first.desired == {}
        run.ends_with(1, START_S)
    assert run.fault("node_died")["text"].startswith("controller was killed by SIGKILL")
    assert_safe_action(run, run.fault("stale_command")["t"])


def test_promise_03_a_plant_that_is_gone_silences_the_controller(runs: Runs) -> None:
    the_controller_falls_silent_after(runs, signal.SIGKILL)


def the_controller_falls_silent_after(runs: Runs, number: signal.Signals) -> None:
    """A plant that gets this signal is missed by its controller, which commands no more; the run ends."""
    run = active(runs)
    with Watch(run.name, {CONTROLLER: ["command", "status"]}) as watch:
        watch.until(lambda message: type(message) is Command, within_s=START_S)
        if number == signal.SIGKILL:
            signalled(run.popen.pid, signal.SIGSTOP)  # else the launcher stops the controller at once
        gone = run.kill(PLANT, number)
        silent = watch.until(lambda m: type(m) is Status and m.counts.get("plant_silent", 0) > 0, gone, START_S)
        assert silent.lifecycle == "inactive"
        signalled(run.popen.pid, signal.SIGCONT)
        run.ends_with(1, START_S)
        assert watch.of(Command, silent.mono) == []
    if number == signal.SIGKILL:
        assert run.fault("node_died")["text"].startswith("plant was killed by SIGKILL")
    else:
        assert run.fault("plant_silent")
    assert np.all(np.diff(run.columns["t"]) > 0)


def test_promise_04_lockstep_never_hangs_whoever_stops(runs: Runs) -> None:
    run = active(runs, WAITS, "run.mode=lockstep", "run.duration=50000", words=("--every", "1000"))
    with Watch(run.name) as watch:
        for node in (CONTROLLER, TARGET):
            stopped = run.kill(node, signal.SIGSTOP)
            assert watch.status("fault", stopped, within_s=START_S).fault == "lockstep_timeout"
            run.kill(node, signal.SIGCONT)
            assert run.order("reset") == "inactive"
            before = run.arm(watch)
            assert watch.until(lambda m, k=before.k: type(m) is Status and m.k > k, before.mono, START_S)  # type: ignore[misc]
        run.kill(PLANT, signal.SIGSTOP)
        run.ends_with(1, START_S)
    texts = [each["text"] for each in run.printed["faults"] if each["name"] == "lockstep_timeout"]
    assert any("the plant has published nothing" in each for each in texts)


def test_a_plant_that_crashes_is_a_fault_that_says_why(runs: Runs, tmp_path: Path) -> None:
    state = f'plant.device.state="tcp://127.0.0.1:{free_port()}"'
    applied = f"ipc://{tmp_path.parent.parent}/missing/applied"
    external = ('plant.driver="external"', "plant.safety.limit=2", "run.speed=1", f'plant.device.applied="{applied}"')
    run = runs.start(LAUNCH, *external, state, words=["--insecure"])
    run.ends_with(1, START_S)
    assert [each["name"] for each in run.printed["faults"]] == ["node_died"]  # nobody waited for its readiness
    assert run.fault("node_died")["text"] == "plant failed; see its message above"
    assert f"[plant] cannot start: {applied}" in run.stderr


# restarts


def test_promise_12_each_node_is_started_again_arms_nothing_itself_and_attempts_are_used_up(runs: Runs) -> None:
    run = active(runs, WAITS, *RESTARTED, "supervision.attempts=2", "supervision.window=3600")
    with Watch(run.name) as watch:
        for node in NODES:
            before, was = run.pids(), watch.status("active", within_s=START_S)
            run.kill(node)
            assert eventually(lambda: run.is_open() and run.pids() != before, START_S)  # noqa: B023
            assert {each for each in before if run.pids()[each] != before[each]} == {node}
            if node == TARGET:
                continue  # goals that it had published last until the next one has come
            watch.status("fault" if node == CONTROLLER else "inactive", was.mono + 1, within_s=START_S)
            if node == CONTROLLER:
                assert run.order("reset") == "inactive"
            assert run.ask("status")["values"]["armed"] == 0.0
            lively = {m.run for m in watch.of(Status, was.mono) if (m.node, m.lifecycle) == (PLANT, "active")}
            assert lively == {was.run}
            assert run.arm(watch).run != was.run
            watch.forget()
    before = run.pids()
    signalled(run.popen.pid, signal.SIGSTOP)  # so that it finds all dead
    for pid in before.values():
        signalled(pid, signal.SIGKILL)
    signalled(run.popen.pid, signal.SIGCONT)
    assert eventually(lambda: run.is_open() and not set(run.pids().values()) & set(before.values()), START_S)
    assert eventually(lambda: run.ask("status", within_s=START_S)["lifecycle"] == "inactive", START_S)
    assert run.ask("status")["values"]["armed"] == 0.0
    run.kill(CONTROLLER)
    run.ends_with(1, START_S)
    text = "controller was killed by SIGKILL; 2 restarts within 3600 s"
    assert run.fault("node_died") == run.fault("node_died") | {"text": text, "node": CONTROLLER}
    assert run.printed["restarts"] == dict.fromkeys(NODES, 2)
    assert runs.left_files() == []


# names and addresses


def test_promise_13_a_second_run_is_refused_and_what_a_dead_one_left_blocks_nothing(runs: Runs) -> None:
    run = active(runs)
    second = runs.start(LAUNCH, name=run.name)
    assert second.popen.wait(START_S) == 2
    line, _, rest = second.stderr.partition("\n")
    assert (f"run {run.name!r} is held by process {run.popen.pid}" in line, rest) == (True, "")
    for node in NODES:
        with Bus(run.path, node) as bus:
            for bind in (bus.publisher, bus.requests):
                with pytest.raises(BusError, match="is served already"):
                    bind()
    assert run.ask("status")["lifecycle"] == "active"
    pids = [run.popen.pid, *run.pids().values()]
    for pid in pids:  # nobody is left to clear away
        signalled(pid, signal.SIGSTOP)
    for pid in reversed(pids):  # the launcher last: its death has the system wake stopped children, which clear away
        signalled(pid, signal.SIGKILL)
    run.popen.wait(START_S)
    left = {path.name for path in run.path.iterdir()}
    assert left >= {"lock", "registry.json", *(f"{node}.{kind}" for node in NODES for kind in ("pub", "req"))}
    again = runs.start(LAUNCH, "run.mode=lockstep", "run.duration=0.5", name=run.name)
    again.ends_with(0, START_S)
    assert runs.left_files() == []


def one_thread_each(run: Process) -> None:
    """A node is one thread beside those of libzmq."""
    for pid in run.pids().values():
        names = [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]
        assert len([name for name in names if not name.startswith("ZMQbg")]) == 1, names
        assert len(names) == 3, names  # libzmq's two carry requests
