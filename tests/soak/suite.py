"""The promises of the runtime as tests that any driver must pass, one for each promise, on real processes.

For a driver of your own, write a test file beside this one (or anywhere, with this folder's two modules at hand:
this one and `tests/helpers/runs.py`, which knows processes and messages but no promise):

    class MyDriver(Driver):
        name = "mine"
        launch = "my_launch_file.toml"                       # a file or a packaged name; a machine with a controller
        settings = ("plant.driver=external",)                # as in `servonode run --set`

        @contextmanager
        def machine(self) -> Iterator[Beside]:               # starts what one run needs, and ends it
            with my_robot() as robot:
                yield Beside(settings=(f"plant.device.state={robot.address}",), pid=robot.pid)

    TestMyDriver = safety_suite(MyDriver())

The machine is really moved. What is asked of it: a control period of 10 ms, inputs that may be zero, no fault of its
own within a minute. Runs that several tests share are played through one after the other; each test brings the run
to where it begins.
"""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest

import servonode
from servonode.bus import Applied, Bus, BusError, Command, MessageError, State, Status, decode, encode
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.nodes.plant_machine import driven_plant
from tests.helpers.drivers import Beside, Driver
from tests.helpers.host import host_s, watch_host
from tests.helpers.runs import (
    MANY,
    OFTEN,
    RESTARTED,
    SEED,
    START_S,
    Process,
    Puppet,
    Runs,
    Watch,
    eventually,
    operator,
    private_runs,
    signalled,
    stopped_early,
)
from tests.helpers.strangers import framed_garbage, raw_garbage, stranger

PERIOD = 0.01  # s, between two control instants
TIMEOUT = 0.1  # s, the command timeout of these runs
LATENESS_LIMIT = 0.4  # s
HOST_S = 0.05  # what processes that wait for each other may add to a reaction; host_s is what this computer adds
LOCKSTEP_TIMEOUT = 0.5  # s
LIMIT, RATE, POWER = 0.02, 0.5, 0.002  # of each input, of its change per second, of all together [W]
BUDGET = 4  # periods for which the last command is held
POISON = 1234.5  # an input that must never act

COMMON = (
    "run.speed=1",
    "run.duration=600",
    f"controller.period={PERIOD}",
    f"plant.safety.command_timeout={TIMEOUT}",
    f"plant.safety.lateness_limit={LATENESS_LIMIT}",
    "plant.safety.safe_time=0.1",
    "plant.safety.ramp=0",  # what is asked acts at once, also after an arming
    f"run.lockstep_timeout={LOCKSTEP_TIMEOUT}",
)
WAITS = 'plant.safety.on_fault="wait"'
HARSH = (
    f"plant.safety.limit={LIMIT}",
    f"plant.safety.rate_limit={RATE}",
    f"plant.safety.power_limit={POWER}",
    f"plant.safety.repeats={BUDGET}",
)


class Stage:
    """Runs of one driver: at most one is in progress at a time, and what several tests need of it is shared."""

    def __init__(self, driver: Driver, runs: Runs) -> None:
        self.driver = driver
        self.runs = runs
        self.beside = Beside()
        self._shared: tuple[str, Any] | None = None
        self._stack = ExitStack()
        runs.ends.callback(self.close)  # also where a test fails
        watch_host()

    def start(self, *settings: str, **options: Any) -> Process:
        """A run of its own, armed; the one before is ended. options: as `Process` takes them."""
        self.close()
        self.beside = self._stack.enter_context(self.driver.machine())
        given = (*COMMON, *self.driver.settings, *self.beside.settings, *settings)
        words = (*self.beside.words, *options.pop("words", ()))
        run = self.runs.start(self.driver.launch, *given, words=words, **options)
        self._stack.callback(run.end)
        run.wait_open()
        assert eventually(lambda: self._is_armed(run), START_S), run.stderr
        return run

    def machine_alone(self, k: int) -> dict[str, float]:
        """The state of a machine that no run drives any more, as another host reads it from step k > 0 on."""
        launch = read_launch(self.driver.launch, [*COMMON, *self.driver.settings, *self.beside.settings])
        loop = resolve(launch, strict=False)
        plant = driven_plant(loop, time.monotonic_ns)
        assert plant.remote is not None
        plant.open()
        plant.begin(4242, k)
        assert eventually(plant.remote.connected), plant.remote.no_answer_reason()
        states = dict(zip(loop.machine.description.state_names, plant.read().state, strict=True))
        plant.close()
        return states

    def _is_armed(self, run: Process) -> bool:
        """Whether the plant is active; a plant that waits for the operator is armed, after a fault again."""
        assert run.popen.poll() is None, run.stderr
        with suppress(TimeoutError):
            stands = run.ask("status")
            if stands["lifecycle"] == "fault":
                run.ask("reset")
            elif stands["lifecycle"] == "inactive" and not stands["values"]["armed"]:
                run.ask("arm")
            return bool(stands["lifecycle"] == "active")
        return False

    def driven(self) -> tuple[Process, Watch]:
        """The shared run with its own controller, active."""
        run, watch = self._share("driven", self._driven)
        with suppress(ProcessLookupError):
            for pid in (run.popen.pid, *run.pids().values()):
                signalled(pid, signal.SIGCONT)
        if run.ask("status")["lifecycle"] == "fault":
            run.order("reset_estop")
        if run.ask("status")["lifecycle"] != "active":
            run.arm(watch)
        watch.forget()
        return run, watch

    def _driven(self) -> tuple[Process, Watch]:
        run = self.start(WAITS)
        watch = self._stack.enter_context(Watch(run.name))
        watch.status("active")
        return run, watch

    def puppet(self) -> Puppet:
        """The shared run in which the test is the controller, under harsh limits, active."""
        puppet: Puppet = self._share("puppet", lambda: self._stack.enter_context(Puppet(self.start(WAITS, *HARSH))))
        puppet.activate()
        puppet.applied.clear()
        puppet.states.clear()
        return puppet

    def _share(self, kind: str, make: Callable[[], Any]) -> Any:
        if self._shared is None or self._shared[0] != kind:
            made = make()
            self._shared = (kind, made)
        return self._shared[1]

    def close(self) -> None:
        """End the run in progress."""
        self._shared = None
        self._stack.close()


def assert_within(allowed: float, begin: int, end: int) -> None:
    """From begin to end [monotonic ns] it took at most `allowed` [s], and what the computer has added."""
    assert (end - begin) / 1e9 <= allowed + HOST_S + host_s(begin, end)


def safety_suite(driver: Driver) -> type:
    """A class of tests, one for each promise that depends on the driver."""
    loop = servonode.load(driver.launch)
    machine, names = loop.machine, loop.machine.description.input_names
    restarted = [each for each in RESTARTED if not each.startswith("supervision.plant=") or PLANT in driver.restarts]

    class SafetySuite:
        @pytest.fixture(scope="class")
        @classmethod
        def stage(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
            with private_runs(tmp_path_factory.mktemp(driver.name)) as runs:
                stage = Stage(driver, runs)
                yield stage
                stage.close()

        @pytest.fixture
        def phase(self) -> Callable[[], None]:
            """Sleeps to a random phase of the control period."""
            rng = random.Random(SEED)
            return lambda: time.sleep(rng.uniform(0.05, 0.05 + 3 * PERIOD))

        # runs that end

        def test_promise_01_a_killed_controller_leaves_the_safe_action(
            self, stage: Stage, phase: Callable[[], None]
        ) -> None:
            run = stage.start(words=("--every", "1"))
            with Watch(run.name) as watch:
                phase()
                before = watch.status("active", time.monotonic_ns())
                phase()
                killed = run.kill(CONTROLLER)
                status = watch.status("fault", killed)
                assert (status.fault, status.safe_state) == (
                    "stale_command",
                    "damp" if machine.description.has_safe_action else "zero",
                )
                assert_in_time(killed, before, status)
                first = next(each for each in watch.of(Applied, killed) if "fault:stale_command" in each.reasons)
                assert first.mono <= status.mono
                assert first.desired == {}
                run.ends_with(1)
            assert run.fault("node_died")["text"].startswith("controller was killed by SIGKILL")
            assert_safe_action(run, run.fault("stale_command")["t"])

        def test_promise_03_a_killed_plant_silences_the_controller(
            self, stage: Stage, phase: Callable[[], None]
        ) -> None:
            run = stage.start()
            with Watch(run.name, {CONTROLLER: ["command", "status"]}) as watch:
                watch.until(lambda message: type(message) is Command)
                phase()
                signalled(run.popen.pid, signal.SIGSTOP)  # else the launcher stops the controller at once
                killed = run.kill(PLANT)
                assert_falls_silent(watch, killed)
                signalled(run.popen.pid, signal.SIGCONT)
                run.ends_with(1)
            assert run.fault("node_died")["text"].startswith("plant was killed by SIGKILL")
            assert run.printed["exit"] == 1

        def test_promise_04_lockstep_never_hangs(self, stage: Stage, phase: Callable[[], None]) -> None:
            run = stage.start(WAITS, "run.mode=lockstep", "run.duration=50000", words=("--every", "1000"))
            with Watch(run.name) as watch:
                victims = [run.pids()[CONTROLLER], run.pids()[TARGET], *filter(None, [stage.beside.pid])]
                for pid in victims:
                    watch.status("active", time.monotonic_ns())
                    phase()
                    stopped = signalled(pid, signal.SIGSTOP)
                    status = watch.status("fault", stopped)
                    assert status.fault == "lockstep_timeout"
                    signalled(pid, signal.SIGCONT)
                    assert run.order("reset") == "inactive"
                    asked = time.monotonic_ns()
                    assert eventually(run.armed_again)  # a slow line may be late once more on a busy computer
                    before = watch.status("active", asked)
                    assert watch.status("active", before.mono + 1).k >= before.k
                    assert eventually(lambda k=before.k: watch.latest().k > k)  # type: ignore[misc]
                stopped = run.kill(PLANT, signal.SIGSTOP)
                run.ends_with(1)
            assert "the plant has published nothing" in "".join(
                each["text"] for each in run.printed["faults"] if each["name"] == "lockstep_timeout"
            )

        def test_promise_12_restarted_node_is_back_soon(self, stage: Stage) -> None:
            stage.close()
            left = stage.runs.left_files()  # by the runs before, which were killed
            run = stage.start(WAITS, *restarted, OFTEN)
            with Watch(run.name) as watch:
                for node in driver.restarts:
                    before, active = run.pids(), watch.status("active", time.monotonic_ns())
                    killed = run.kill(node)
                    assert eventually(lambda: run.is_open() and run.pids() != before)  # noqa: B023
                    assert {each for each in before if run.pids()[each] != before[each]} == {node}
                    assert (time.monotonic_ns() - killed) / 1e9 < 1.0 + TIMEOUT + 2.0  # a busy computer
                    if node == TARGET:
                        assert watch.status("active", time.monotonic_ns()).run == active.run  # nobody noticed
                        continue
                    time.sleep(0.3)  # it does not arm itself
                    stands = run.ask("status")
                    assert stands["lifecycle"] == ("fault" if node == CONTROLLER else "inactive")
                    if node == CONTROLLER:
                        assert run.order("reset") == "inactive"
                    assert run.arm(watch).run != active.run
                time.sleep(1.0)  # past the goals that the dead target had published
                assert run.ask("status")["lifecycle"] == "active"
                asked = time.monotonic_ns()
                residuals = watch.status("active", asked, CONTROLLER).values
                for name in (each.name for each in loop.closed_loop.residuals):
                    assert abs(residuals[name]) < 0.1
            run.stop()
            assert stage.runs.left_files() == left

        def test_promise_24_plant_closes_its_link_after_any_signals(self, stage: Stage) -> None:
            run = stage.start(WAITS, "plant.safety.safe_time=5")
            begun = time.monotonic()
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGINT):
                signalled(run.popen.pid, number)
                time.sleep(0.05)
            run.ends_with(128 + signal.SIGHUP)
            assert time.monotonic() - begun < 5.0
            assert (run.printed["ended"], run.printed["faults"]) == ("broken off", [])  # nobody was killed
            assert "is killed" not in run.stderr
            assert run.columns["t"][-1] == run.printed["t"]

        def test_promise_25_lost_terminal_ends_the_run_in_good_order(self, stage: Stage) -> None:
            ours, theirs = os.openpty()
            run = stage.start(WAITS, terminal=theirs)
            os.close(theirs)
            with Watch(run.name, {PLANT: ["state"]}) as watch:
                first = watch.until(lambda message: type(message) is State)
                os.close(ours)
                assert run.popen.wait(START_S) == 129
                newest = watch.of(State, first.mono)[-1]
            assert run.left_over() == []
            assert not run.path.exists()
            assert run.columns["t"][-1] >= newest.t

        # the test as the controller

        def test_promise_02_a_controller_that_spins_is_as_good_as_dead(self, stage: Stage) -> None:
            puppet = stage.puppet()
            last = 0

            def beats(state: State) -> None:
                puppet.beat()  # a heartbeat, and no command

            puppet.play_states(3)
            before = puppet.statuses[-1]
            puppet.answer, last = beats, time.monotonic_ns()
            puppet.play(lambda: puppet.stands("fault", last))
            status = next(each for each in puppet.statuses if each.mono >= last and each.lifecycle == "fault")
            assert status.fault == "stale_command"
            assert_in_time(last, before, status)
            puppet.activate()

        def test_promise_05_old_foreign_and_replayed_commands_are_refused(self, stage: Stage) -> None:
            puppet = stage.puppet()
            poison = dict.fromkeys(names, POISON)
            answered: list[State] = []

            def answers(state: State) -> list[Command]:
                if len(answered) == 20:
                    return [puppet.good(state)]
                answered.append(state)
                good = puppet.good(state)
                wrong = [
                    puppet.good(state, input=poison, run=state.run % 2**52 + 1),
                    puppet.good(state, input=poison, re=state.seq + 1000),
                    puppet.good(state, input=poison, re=state.seq + 2**40),
                    puppet.good(state, input=poison, re=max(state.seq - 2, 0)),
                    puppet.good(state, input=poison, re=-1),
                    puppet.good(state, input=poison, src=puppet.src % 2**52 + 1),  # another controller, never armed
                ]
                return [*wrong, good, puppet.good(state, input=poison)]

            before = puppet.counts
            puppet.answer = answers
            puppet.play_states(24)
            expected = {"run": 20, "future": 40, "old": 20, "repeated": 20, "limits": 20, "src": 20}
            assert puppet.refused(before, expected) == expected
            assert_nothing_acted(puppet)

        def test_promise_06_what_is_no_command_is_refused_and_counted(self, stage: Stage) -> None:
            puppet = stage.puppet()
            expected: Counter[str] = Counter()
            count = 0

            def answers(state: State) -> list[Any]:
                nonlocal count, expected
                count += 1
                if count > 10:
                    return [puppet.good(state)]
                damaged = list(damaged_commands(puppet.good(state, input=dict.fromkeys(names, POISON))))
                expected += Counter(map(refusal_of, damaged))
                misfits = [{}, {names[0]: POISON, "X": POISON}, dict.fromkeys([*names, "more"], POISON)]
                expected["shape"] += len(misfits)
                return [*damaged, *(puppet.good(state, input=each) for each in misfits), puppet.good(state)]

            before = puppet.counts
            puppet.answer = answers
            puppet.play_states(14)
            assert expected.keys() == {"missing", "type", "non_finite", "limits", "malformed", "shape"}
            assert puppet.refused(before, expected) == expected
            assert_nothing_acted(puppet)

        def test_promise_07_no_input_beyond_the_limits_ever_acts(self, stage: Stage) -> None:
            puppet = stage.puppet()
            rng = random.Random(7)
            asked: dict[int, dict[str, float]] = {}
            states: dict[int, State] = {}

            def answers(state: State) -> Command:
                most = 10.0 ** rng.uniform(-4, 300 if rng.random() < 0.1 else 1)
                values = {name: rng.uniform(-0.1 * most, most) for name in names}  # it gains speed, so power matters
                command = puppet.good(state, input=values)
                asked[command.seq], states[command.seq] = values, state
                return command

            puppet.answer = answers
            puppet.play_states(80)
            passed = [each for each in puppet.applied if each.re in asked]
            assert len(passed) > 50
            reasons = {reason for each in passed for reason in each.reasons}
            assert reasons == {*(f"limit:{name}" for name in names), *(f"rate:{name}" for name in names), "power"}
            powers = list[float]()
            for before, each in pairwise(puppet.applied):
                if each.re not in asked:
                    continue
                assert each.desired == asked[each.re]
                assert each.reasons or each.input == each.desired
                if each.k == states[each.re].k:  # else it came late, and the power is that at the state of then
                    powers.append(power_of(each, states[each.re]))
                if before.re in asked and "power" not in each.reasons:  # power wins over rate
                    elapsed = states[each.re].t - states[before.re].t
                    changes = [abs(each.input[name] - before.input[name]) for name in names]
                    assert max(changes) <= RATE * elapsed + 1e-12
            assert len(powers) > 25
            assert 0.99 * POWER < max(powers) <= POWER * (1 + 1e-9)
            assert_within_limits(puppet)
            counts = puppet.counts
            assert counts["saturated"] > 0
            assert all(counts[reason] > 0 for reason in reasons)

        def test_promise_08_a_late_command_is_counted_and_acts_from_now_on(self, stage: Stage) -> None:
            puppet = stage.puppet()
            before, waiting = puppet.counts, list[Command]()
            sent: dict[int, tuple[int, int]] = {}  # seq -> step of the state it answers, clock when it was sent

            def answers(state: State) -> Command | None:
                waiting.append(puppet.good(state))
                if len(waiting) < 3:
                    return None
                late = waiting.pop(0)
                sent[late.seq] = (late.k, time.monotonic_ns())
                return late

            puppet.play_states(30)
            assert (puppet.counts - before)["late_commands"] < 20  # those are this computer's doing
            before, puppet.answer = puppet.counts, answers
            puppet.play_states(30)
            found = puppet.counts - before
            assert found["late_commands"] >= 25
            assert found["repeats"] >= 25
            passed = [each for each in puppet.applied if each.re in sent]
            assert len(passed) >= 25
            for each in passed:
                answered, clock = sent[each.re]
                assert each.k > answered  # applied at the step of now, not at that of the state
                assert each.mono >= clock
            puppet.activate()

        def test_promise_08_safe_action_beyond_the_repeat_budget(self, stage: Stage) -> None:
            puppet = stage.puppet()
            before = puppet.counts
            silent = 0

            def answers(state: State) -> Command | None:
                nonlocal silent
                silent += 1
                return None if silent <= BUDGET + 3 else puppet.good(state)

            puppet.answer = answers
            puppet.play_states(BUDGET + 12)
            found = puppet.counts - before
            assert found["over_budget"] >= 1
            assert found["repeats"] > BUDGET
            damped = [each for each in puppet.applied if each.reasons == ["repeats"]]
            assert len(damped) == 1
            assert damped[0].repeats == BUDGET + 1
            after = [each for each in puppet.applied if each.mono > damped[0].mono]
            assert after
            assert all(each.re > 0 for each in after)
            stands = puppet.run.ask("status")
            assert (stands["lifecycle"], stands["fault"], stands["safe_state"]) == ("active", "", "nominal")

        # the run with its own controller

        def test_promise_02_a_frozen_controller_is_as_good_as_dead(
            self, stage: Stage, phase: Callable[[], None]
        ) -> None:
            run, watch = stage.driven()
            before = watch.status("active", time.monotonic_ns())
            phase()
            frozen = run.kill(CONTROLLER, signal.SIGSTOP)
            status = watch.status("fault", frozen)
            assert status.fault == "stale_command"
            assert_in_time(frozen, before, status)
            run.kill(CONTROLLER, signal.SIGCONT)
            assert "reset it first" in run.ask("arm")["refused"]
            assert run.order("reset") == "inactive"
            assert run.arm(watch).run != status.run

        def test_promise_09_plant_stall_is_counted_and_time_is_kept(self, stage: Stage) -> None:
            run, watch = stage.driven()
            begin = watch.status("active", time.monotonic_ns())
            for stall in (0.001, 0.01, 0.2):
                stopped = run.kill(PLANT, signal.SIGSTOP)
                time.sleep(stall)
                run.kill(PLANT, signal.SIGCONT)
                assert watch.status(after=stopped + round((stall + 0.4) * 1e9)).lifecycle == "active"
            end = watch.status("active", time.monotonic_ns())
            assert end.values["misses"] >= begin.values["misses"] + 1
            assert end.values["stalls"] >= begin.values["stalls"] + 1
            assert end.t - begin.t == pytest.approx(
                (end.mono - begin.mono) / 1e9, abs=HOST_S + host_s(begin.mono, end.mono)
            )

        def test_promise_10_host_stall_is_no_dead_controller(self, stage: Stage) -> None:
            run, watch = stage.driven()
            begin = watch.status("active", time.monotonic_ns())
            controller, others = run.pids()[CONTROLLER], [run.pids()[PLANT], *filter(None, [stage.beside.pid])]
            stopped = stalled(controller, others, 0.2)
            end = watch.status(after=stopped + round(0.6e9))
            assert (end.lifecycle, end.fault) == ("active", ""), run.ask("status")
            assert end.values["stalls"] >= begin.values["stalls"] + 1
            stopped = stalled(controller, others, LATENESS_LIMIT + 0.2)
            assert watch.status("fault", stopped).fault == "host_stall"
            time.sleep(0.5)  # until it has caught up with the clock
            assert run.order("reset") == "inactive"
            run.arm(watch)

        def test_promise_13_a_second_run_of_the_same_name_is_refused(self, stage: Stage) -> None:
            run, watch = stage.driven()
            second = stage.runs.start(driver.launch, *driver.settings, *stage.beside.settings, name=run.name)
            assert second.popen.wait(START_S) == 2
            line, _, rest = second.stderr.partition("\n")
            assert rest == ""
            assert f"run {run.name!r} is held by process {run.popen.pid}" in line
            stage.runs.started.remove(second)  # its name is the first one's
            for node in (PLANT, CONTROLLER, TARGET):
                with Bus(run.path, node) as bus:
                    for bind in (bus.publisher, bus.requests):
                        with pytest.raises(BusError, match="is served already"):
                            bind()
            assert watch.status(after=time.monotonic_ns()).lifecycle == "active", run.ask("status")["faults"]

        def test_promise_15_estop_by_request_or_signal_within_a_period(
            self, stage: Stage, phase: Callable[[], None]
        ) -> None:
            run, watch = stage.driven()
            asks: dict[str, Callable[[], Any]] = {
                "request": lambda: run.order("estop"),
                "SIGUSR1": lambda: run.kill(PLANT, signal.SIGUSR1),
                "SIGQUIT": lambda: signalled(run.popen.pid, signal.SIGQUIT),
            }
            for ask in asks.values():
                phase()
                asked = time.monotonic_ns()
                ask()
                status = watch.status("fault", asked)
                assert status.fault == "estop"
                assert_within(PERIOD, asked, status.mono)
                stop = watch.until(lambda m: type(m) is Applied and "fault:estop" in m.reasons, asked)
                assert stop.mono <= status.mono
                assert_latched(run, watch)

        def test_promise_23_estop_needs_no_socket_launcher_or_file(self, stage: Stage) -> None:
            run, watch = stage.driven()
            plant = run.pids()[PLANT]
            for pid in (run.popen.pid, run.pids()[CONTROLLER], run.pids()[TARGET]):
                signalled(pid, signal.SIGSTOP)
            folders = [run.path, run.path.parent]
            untouched = [folder.stat().st_mtime_ns for folder in folders]
            asked = time.monotonic_ns()
            done = operator("estop", run.name, descriptors=12)
            assert (done.returncode, done.stderr) == (0, "")  # one socket is enough, and that not for the stop itself
            assert watch.until(lambda m: type(m) is Status and m.values.get("estop"), asked)
            assert "fault:estop" in {reason for each in watch.of(Applied, asked) for reason in each.reasons}
            done = operator("estop", run.name, "--json")
            assert done.returncode == 0, done.stderr
            stop = json.loads(done.stdout)["runs"][0]
            assert (stop["run"], stop["pid"], stop["lifecycle"]) == (run.name, plant, "fault")
            assert (stop["signalled"], stop["confirmed"]) == (True, True)
            assert [folder.stat().st_mtime_ns for folder in folders] == untouched
            for pid in (run.popen.pid, run.pids()[CONTROLLER], run.pids()[TARGET]):
                signalled(pid, signal.SIGCONT)
            assert_latched(run, watch)

        def test_promise_23_reset_leaves_the_estop_latched(self, stage: Stage) -> None:
            run, watch = stage.driven()
            frozen = run.kill(CONTROLLER, signal.SIGSTOP)
            assert watch.status("fault", frozen).fault == "stale_command"
            assert run.order("estop") == "fault"
            run.kill(CONTROLLER, signal.SIGCONT)
            stands = run.ask("status")
            assert [each["name"] for each in stands["faults"]] == ["stale_command", "estop"]
            assert (stands["fault"], stands["text"]) == ("stale_command", stands["faults"][0]["text"])
            assert all(each["text"] and 0.0 < each["t"] <= stands["t"] for each in stands["faults"])
            shown = operator("status", run.name).stdout
            assert all(
                f"FAULT {each['name']} at t = {each['t']:.3f} s: {each['text']}" in shown for each in stands["faults"]
            )
            done = operator("reset", run.name)
            stays = "the emergency stop stays latched; clear it with servonode reset --estop"
            assert (done.returncode, done.stdout) == (0, f"{run.name}: fault; {stays}\n")
            assert_latched(run, watch)

        def test_promise_23_estop_in_the_first_milliseconds_is_held(self, stage: Stage) -> None:
            if PLANT not in driver.restarts:
                pytest.skip("its plant node is never started again")
            run, rng = stage.start(WAITS, *restarted, OFTEN), random.Random(SEED)
            for _ in range(MANY // 2):
                stopped_early(run, rng)
            run.stop()

        def test_promise_17_garbage_at_every_port_disturbs_nothing(self, stage: Stage) -> None:
            run, watch = stage.driven()
            before, pids = watch.status("active", time.monotonic_ns()), run.pids()
            rng = random.Random(21)
            places: list[str | int] = sorted(str(path) for path in run.path.iterdir() if path.is_socket())
            assert len(places) == 6
            for place in (*places, *stage.beside.ports):
                for _ in range(10):
                    raw_garbage(place, rng)
                framed_garbage(place, rng)
            after = watch.status("active", time.monotonic_ns())
            assert (after.fault, after.run) == ("", before.run)
            assert run.pids() == pids
            for node in (PLANT, CONTROLLER, TARGET):
                assert run.ask("status", node)["fault"] == ""
            asked = watch.status("active", time.monotonic_ns(), CONTROLLER)
            assert asked.k > before.k

        def test_promise_22_floods_stop_neither_plant_nor_estop(self, stage: Stage) -> None:
            run, watch = stage.driven()
            before, pids = watch.status("active", time.monotonic_ns()), run.pids()
            with ExitStack() as stack:
                for place in bound_by_plant(stage, run):
                    for what in REQUEST_FLOODS if str(place).endswith("req") else FLOODS_OF_SUBSCRIBERS:
                        stack.enter_context(stranger(what, place))
                time.sleep(0.5)
                begin = watch.status("active", time.monotonic_ns())
                assert (begin.fault, begin.run) == ("", before.run)
                asked = time.monotonic_ns()
                assert run.order("estop") == "fault"
                assert watch.status("fault", asked).fault == "estop"
            assert_latched(run, watch)
            assert run.pids() == pids

        @pytest.mark.parametrize("what", ["silent", "idle"])
        def test_promise_22_idle_connections_leave_estop(self, stage: Stage, what: str) -> None:
            run, watch = stage.driven()
            pids = run.pids()
            with ExitStack() as stack:
                for place in bound_by_plant(stage, run):
                    stack.enter_context(stranger(what, place))
                time.sleep(0.5)
                assert watch.status(after=time.monotonic_ns()).lifecycle == "active", run.ask("status")["faults"]
                asked = time.monotonic_ns()
                done = operator("estop", run.name)
                assert done.returncode == 0, done.stderr
                assert watch.status("fault", asked).fault == "estop"
                assert run.pids() == pids
            assert_latched(run, watch)

        def test_promise_03_frozen_plant_silences_the_controller(self, stage: Stage, phase: Callable[[], None]) -> None:
            run, _ = stage.driven()  # which ends here
            with Watch(run.name, {CONTROLLER: ["command", "status"]}) as watch:
                watch.until(lambda message: type(message) is Command)
                phase()
                assert_falls_silent(watch, run.kill(PLANT, signal.SIGSTOP))
                run.ends_with(1)
            stage.close()
            assert run.fault("plant_silent")
            columns = run.columns
            assert np.all(np.diff(columns["t"]) > 0)
            assert columns["t"][-1] == run.printed["t"] > 0

    def bound_by_plant(stage: Stage, run: Process) -> list[str | int]:
        """The addresses at which other processes can reach the plant itself."""
        return [*(str(run.path / f"{PLANT}.{kind}") for kind in ("pub", "req")), *stage.beside.bound]

    def assert_in_time(since: int, before: Status, fault: Status) -> None:
        """The plant said within the command timeout and one period that its safe action acts.

        Where it counted a stall of its host meanwhile, it has waited afresh, once: that is promise 10.
        """
        allowed = TIMEOUT + PERIOD
        if fault.values["stalls"] > before.values["stalls"]:
            allowed += TIMEOUT + fault.values["lateness_max"]
        assert_within(allowed, since, fault.mono)

    def assert_safe_action(run: Process, since: float) -> None:
        """The record ends under the machine's safe action, computed from each row's own state."""
        columns = run.columns
        rows = np.flatnonzero(columns["t"] >= since)[:-1]  # the last row has no input of its own
        assert len(rows) >= 50
        states = np.array([columns[name] for name in machine.description.state_names]).T
        for row in rows:
            expected = machine.safe_input(columns["t"][row], np.append(states[row], 0.0))
            np.testing.assert_allclose([columns[name][row] for name in names], expected, rtol=1e-12, atol=1e-15)

    def assert_falls_silent(watch: Watch, stopped: int) -> None:
        """The controller says within the command timeout that the plant is silent, and sends no more commands."""
        silent = watch.until(lambda m: type(m) is Status and m.counts.get("plant_silent", 0) > 0, stopped)
        assert silent.lifecycle == "inactive"
        assert_within(TIMEOUT + PERIOD, stopped, silent.mono)
        time.sleep(3 * PERIOD)
        busy = HOST_S + host_s(stopped, time.monotonic_ns())
        assert watch.of(Command, stopped + round((PERIOD + busy) * 1e9)) == []

    def assert_latched(run: Process, watch: Watch) -> None:
        """After an emergency stop: reset and arm are refused; its release leads to inactive, arm to a new run id."""
        stays = "the emergency stop stays latched; clear it with servonode reset --estop"
        if len(run.ask("status")["faults"]) > 1:  # what else was frozen meanwhile
            assert run.ask("reset")["note"] == stays
        assert run.ask("reset")["refused"] == stays
        stopped = run.ask("status")
        assert (stopped["lifecycle"], [each["name"] for each in stopped["faults"]]) == ("fault", ["estop"])
        brakes = "damp" if machine.description.has_safe_action else "zero"  # once a reset's handshake is answered
        assert eventually(lambda: run.ask("status")["safe_state"] == brakes), stopped
        assert run.ask("arm")["refused"] == "fault estop is latched; reset it first (servonode reset --estop)"
        run_id = watch.status(after=time.monotonic_ns()).run
        assert run.order("reset_estop") == "inactive"
        released = run.ask("status")
        assert (released["lifecycle"], released["values"]["estop"]) == ("inactive", 0.0)
        assert run.arm(watch).run != run_id

    def assert_within_limits(puppet: Puppet) -> None:
        """Neither what was let through nor what acted, the safe action included, is beyond the limit of value."""
        inputs = [each.input for each in puppet.applied] + [each.input for each in puppet.states]
        assert len(inputs) > 20
        assert all(abs(value) <= LIMIT for each in inputs for value in each.values())

    def assert_nothing_acted(puppet: Puppet) -> None:
        """No refused command left a trace in what was applied, and the good ones between them kept the run going."""
        puppet.play(lambda: len(puppet.applied) > 10)
        assert_within_limits(puppet)
        assert all(POISON not in each.desired.values() for each in puppet.applied)
        assert puppet.stands("active"), puppet.run.ask("status")["faults"]

    def power_of(applied: Applied, state: State) -> float:
        """The power [W] that inputs put into the machine at a state."""
        values = [v for each in state.state.values() for v in (each if isinstance(each, list) else [each])]
        rates = machine.input_rates(state.t, np.array([*values, 0.0]))
        return float(sum(applied.input[name] * rate for name, rate in zip(names, rates, strict=True)))

    SafetySuite.__name__ = SafetySuite.__qualname__ = f"Test_{driver.name}"
    return SafetySuite


# what is thrown at a run


FLOODS_OF_SUBSCRIBERS = ("many subscriptions", "subscriptions come and go")
REQUEST_FLOODS = ("requests", "stream")


def damaged_commands(command: Command) -> Iterator[bytes]:
    """Bytes that differ from a good command in one thing each."""
    good: dict[str, Any] = msgspec.msgpack.decode(encode(command))
    name = next(iter(good["input"]))
    for value in (float("nan"), float("inf"), -float("inf"), True, 2**60, "1", None, [1.0], b"1", 2**64 - 1):
        yield msgspec.msgpack.encode({**good, "input": {**good["input"], name: value}})
    for key in ("run", "re", "input", "seq", "k", "t", "mono", "node", "src"):
        yield msgspec.msgpack.encode({word: value for word, value in good.items() if word != key})
    for key, value in (("re", True), ("re", 1.5), ("run", -1), ("run", "1"), ("k", -2), ("mono", 2**63), ("t", None)):
        yield msgspec.msgpack.encode({**good, key: value})
    yield msgspec.msgpack.encode({**good, "input": [1.0, 2.0]})
    yield msgspec.msgpack.encode({**good, "input": {f"U{i}": 1.0 for i in range(300)}})
    yield msgspec.msgpack.encode({**good, "input": {**good["input"], 5: 1.0}})
    yield encode(command)[:-3]
    yield encode(command) + b"\x00"
    yield b""
    yield b"\xdc\xff\xff"
    yield bytes(range(256))


def refusal_of(payload: bytes) -> str:
    """For which reason the decoder refuses these bytes."""
    with pytest.raises(MessageError) as refused:
        decode(b"command", payload)
    return refused.value.reason


def stalled(controller: int, others: list[int], seconds: float) -> int:
    """Stop these processes for so long [s], the controller while an answer is owed; the time [monotonic ns] of it."""
    stopped = signalled(controller, signal.SIGSTOP)
    time.sleep(1.5 * PERIOD)
    for pid in others:
        signalled(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in (*others, controller):
        signalled(pid, signal.SIGCONT)
    return stopped
