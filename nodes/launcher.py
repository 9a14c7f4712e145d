"""The launcher: kernels loaded once, nodes forked, started together, watched, stopped, accounted for."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from servonode.bus import Bus, BusError, Requester, RunFolder, Status, devices_folder, run_folder, run_path
from servonode.bus.processes import Named
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.driver_checks import check_free, driver_addresses, remarks
from servonode.closed_loop.launch_file import table_of
from servonode.nodes.collect import Outcome, collect
from servonode.nodes.fault_ladder import ESTOP
from servonode.nodes.node_main import run_node
from servonode.nodes.node_process import STOP, Child, forked
from servonode.nodes.recording import Recording
from servonode.nodes.restart_policy import Restarts
from servonode.nodes.topology import LAUNCHER, NODES, PLANT, TARGET, launcher_hears, nodes_of

READY_TIMEOUT_S = 20.0
READY_PAUSE_S = 0.002  # between two questions, so that nodes that already run are not held up
STOP_LADDER = ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
HUNG_UP_NS = 1_000_000_000  # within which a process that has closed its sockets has ended
LOOK_NS = 50_000_000  # how often the launcher looks after its nodes
SILENCE_S = 1.0  # beyond the time of an answer in lockstep: a plant that says nothing for so long hangs


Progress = Callable[[dict[str, Status]], None]


class Launcher:
    """One run on processes. `progress` is called a few times a second with the newest status of each node.

    begun: called once the run's name is held, before anything else is started. recording: where the record goes
    (absent: into memory); whoever gives one ends it. arm: without waiting for the operator; absent: simulations arm
    themselves, a device waits for `servonode arm`.
    """

    def __init__(
        self,
        closed_loop: ClosedLoop,
        name: str,
        every: int,
        progress: Progress,
        begun: Callable[[], None] = lambda: None,
        recording: Recording | None = None,
        arm: bool | None = None,
    ) -> None:
        self.closed_loop = closed_loop
        self.name = name
        self.every = every
        self.recording = recording or Recording(closed_loop, every, name)
        self.progress = progress
        self.begun = begun
        self.arm = closed_loop.driver.simulated if arm is None else arm
        self.children: dict[str, Child] = {}
        self.outcome = Outcome()
        self._status: dict[str, Status] = {}
        self._interrupts = 0
        self._stopped = False  # an emergency stop came while there was no plant
        self._restarts: dict[str, Restarts] = {}
        self._due: dict[str, int] = {}  # dead nodes that are to be started again -> when
        self._heard = 0  # clock of the plant's newest status

    def launch(self) -> Outcome:
        """Start, watch and stop the nodes; everything that was made is gone when this returns.

        Raises:
            RunNameTaken: a run of this name is going on; BusError: the private folder cannot be had, or an address
                of the launch file is taken.
        """
        begin = time.monotonic_ns()
        launch, machine = self.closed_loop.launch, self.closed_loop.machine.description.name
        addresses = driver_addresses(launch, machine)
        with _held(self.name) as folder, devices_folder(addresses, bound=addresses[-1] if addresses else ""):
            check_free(launch, machine)
            for text in remarks(launch, machine):
                _say(text)
            names = nodes_of(self.closed_loop.control is not None)
            self._restarts = {node: Restarts.of(self.closed_loop.launch.supervision, node) for node in names}
            previous = self._listen()
            try:
                self._lives(folder, names)
                wall_s = (time.monotonic_ns() - begin) / 1e9
                again = {name: each.count for name, each in self._restarts.items() if each.count}
                collect(self.outcome, self.closed_loop, self.recording, again, wall_s)
                self._forward_output()  # the writer's last word
            finally:
                for number, handler in previous:
                    signal.signal(number, handler)
        return self.outcome

    def _lives(self, folder: RunFolder, names: Sequence[str]) -> None:
        """The nodes' lives, from the first fork to the last end."""
        try:
            self.recording.begin()
            self.begun()
            self._supervise(folder, names)
        finally:
            self._stop_all()

    def _listen(self) -> list[tuple[int, Any]]:
        """Handle signals from now on; those handled, and how they were handled before."""
        handlers: dict[int, Any] = dict.fromkeys((signal.SIGINT, signal.SIGTERM), self._on_signal)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # which is what nohup asks for
            handlers[signal.SIGHUP] = self._on_signal
        handlers |= dict.fromkeys((signal.SIGQUIT, STOP), self._on_emergency)
        handlers[signal.SIGTTOU] = signal.SIG_IGN  # no stop for want of a terminal
        return [(number, signal.signal(number, handler)) for number, handler in handlers.items()]

    def _supervise(self, folder: RunFolder, names: Sequence[str]) -> None:
        """Fork the nodes, open the gate, watch; again for each node that is to be started again.

        The launcher's own sockets are closed before each fork: a context's threads do not survive one.
        """
        starting, waiting, again = list(names), set[str](), False
        while starting:
            begin = time.monotonic_ns()
            for node in starting:
                self._fork(node, folder, again)
            waiting |= set(starting)
            self._register(folder, names, self._described(), again)
            with Bus(folder.path, LAUNCHER) as bus:
                inbox = bus.subscriber(launcher_hears(names))
                if not self._gate(folder.path, waiting):
                    return
                if waiting:  # for one that has died meanwhile
                    starting = self._taken_due()
                else:
                    self._register(folder, names, self._described() | {"open": True}, begun=True)
                    if again:
                        self._say_back(starting, begin)
                    starting = self._watch(bus, inbox)
            again = True

    def _register(self, folder: RunFolder, names: Sequence[str], described: dict[str, Any], begun: bool) -> None:
        """Write the registry. BusError where it cannot be, unless the run has begun, which goes on without."""
        try:
            folder.register(names, described)
        except OSError as error:
            if not begun:
                raise _unwritable(folder.path, error) from error
            _say(f"{folder.path}: cannot be written ({error.strerror}): operators and windows will not find this run")

    def _taken_due(self) -> list[str]:
        """The nodes that are to be started again now."""
        now = time.monotonic_ns()
        due = [name for name, at in self._due.items() if at <= now]
        self._due = {name: at for name, at in self._due.items() if name not in due}
        return due

    def _say_back(self, started: list[str], begin: int) -> None:
        took = (time.monotonic_ns() - begin) / 1e9
        remedy = f"a plant in fault stays safe until servonode reset {self.name} and servonode arm {self.name}"
        _say(f"{', '.join(started)} back after {took:.2f} s; {remedy}")

    def _described(self) -> dict[str, Any]:
        """What viewers and the operator need to know: the launch file as it runs, the nodes' processes."""
        launch, pids = self.closed_loop.launch, {name: child.pid for name, child in self.children.items()}
        starts = {name: Named.of(pid).start for name, pid in pids.items()}
        return {
            "pids": pids,
            "starts": starts,
            "launch": {"table": table_of(launch), "path": str(launch.path), "file": launch.file},
        }

    def _on_signal(self, number: int, _: Any) -> None:
        self._interrupts += 1
        self.outcome.signal = self.outcome.signal or number

    def _on_emergency(self, *_: Any) -> None:
        """Ctrl-\\: an emergency stop, by signal because it needs nothing else to work; of a plant to come as well."""
        plant = self.children.get(PLANT)
        self._stopped = plant is None or plant.code is not None
        if plant is not None and not self._stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(plant.pid, signal.SIGUSR1)

    def _fork(self, name: str, folder: RunFolder, again: bool) -> None:
        """Start a node; `again` in the place of one that died: a plant then waits for the operator, whatever it is."""

        if name == PLANT:
            self.recording.begin_life()

        def live() -> int:
            for other in (*self.children.values(), *self.recording.children):
                if other.output >= 0:  # not of one that is dead, or its own former life
                    os.close(other.output)
            folder.forget()
            store = self.recording.stores[name]
            return run_node(name, self.closed_loop, folder, self.every, self.arm and not again, store)

        self.children[name] = forked(name, self.name, live, NODES[name].orphaned)
        if name == PLANT and (self._stopped or (again and self._was_stopped())):
            self._on_emergency()

    def _gate(self, folder: Path, waiting: set[str]) -> bool:
        """Open the start gate once every node in `waiting` is ready, which empties it; False when that cannot be.

        True with some left in it: another node is to be started again first, without which they never are.
        """
        with contextlib.ExitStack() as stack:
            askers = {name: stack.enter_context(Requester(folder, name)) for name in waiting}
            limit = time.monotonic_ns() + round(READY_TIMEOUT_S * 1e9)
            while True:
                if self._reap() or self.outcome.interrupted:
                    return False
                waiting.difference_update(self._due)
                unready = [name for name in waiting if not _is_ready(askers[name])]
                now = time.monotonic_ns()
                if not unready or any(at <= now for at in self._due.values()):
                    break
                if now > limit and not self._due:  # else somebody is still to come whom they wait for
                    self._fault("not_ready", f"{', '.join(unready)} not ready within {READY_TIMEOUT_S:g} s")
                    return False
                self._forward_output()
                time.sleep(READY_PAUSE_S)
            return bool(unready) or self._start(askers, waiting)

    def _start(self, askers: dict[str, Requester], waiting: set[str]) -> bool:
        """Tell the nodes to start, the plant last; False where one does not hear it, and does not start again."""
        for name in NODES:
            if name not in waiting:
                continue
            try:
                askers[name].ask({"ask": "start"}, READY_TIMEOUT_S / 4)
            except TimeoutError:
                if not self._is_due(name):
                    self._fault("not_ready", f"{name} was ready, but did not start")
                    return False
            waiting.discard(name)
        return True

    def _is_due(self, name: str) -> bool:
        """Whether a node that has hung up is to be started again: its end may show a moment later."""
        limit = time.monotonic_ns() + HUNG_UP_NS
        while not self._reap() and time.monotonic_ns() < limit:
            if name in self._due:
                return True
            time.sleep(READY_PAUSE_S)
        return False

    def _watch(self, bus: Bus, inbox: Any) -> list[str]:
        """Show progress until the plant is done, a node dies, or the user breaks off; the nodes to start again."""
        launch, braking = self.closed_loop.launch, False
        patience: int | None = None  # when the plant must have stopped by itself
        self._heard = time.monotonic_ns()
        while (self.children[PLANT].code is None or PLANT in self._due) and not self.outcome.interrupted:
            bus.wait(time.monotonic_ns() + LOOK_NS)
            for _, message in inbox.receive():
                self._status[message.node] = message
                if message.node == PLANT:
                    self._heard = time.monotonic_ns()
            self._forward_output()
            if text := self.recording.look():
                _say(text)
            if self._status_of(TARGET) == "fault":
                break
            dead = self._reap()
            now = time.monotonic_ns()
            if due := self._taken_due():
                return due
            if PLANT not in self._due and self._is_silent(now):
                break
            if dead and patience is None:
                patience = now + round(((self.closed_loop.safety.command_timeout or 0.0) + 1.0) * 1e9)
            if patience is not None and not braking and self._status_of(PLANT) == "fault":
                braking = True  # the plant takes its safe action, which has its own time
                patience += round(self.closed_loop.safety.safe_steps * launch.step_ns / launch.run.speed)
            if patience is not None and (now > patience or launch.run.mode == "lockstep"):
                break
            self.progress(self._status)
        return []

    def _is_silent(self, now: int) -> bool:
        """Whether the plant has said nothing for so long that it hangs, which is a fault."""
        run = self.closed_loop.launch.run
        silent = (now - self._heard) / 1e9
        if silent <= run.lockstep_timeout + SILENCE_S:
            return False
        name = "lockstep_timeout" if run.mode == "lockstep" else "plant_silent"
        self._fault(name, f"the plant has said nothing for {silent:.1f} s: its process is stopped or hangs")
        return True

    def _was_stopped(self) -> bool:
        """Whether the plant stood in an emergency stop when it was last heard: only a reset releases that."""
        return PLANT in self._status and bool(self._status[PLANT].values.get(ESTOP))

    def _status_of(self, node: str) -> str:
        return self._status[node].lifecycle if node in self._status else ""

    def _reap(self) -> bool:
        """Note which children have ended; whether one ended that should not have, and is not started again."""
        early = False
        for child in self.children.values():
            if child.code is not None:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                child.code = os.waitstatus_to_exitcode(status)
                if child.code not in NODES[child.name].end_codes:
                    early = not self._starts_again(child) or early
        return early

    def _starts_again(self, child: Child) -> bool:
        """Whether the policy has the node started again; if not, its death is a fault."""
        policy, code = self._restarts[child.name], child.code
        assert code is not None
        at = policy.ended(code, time.monotonic_ns())
        if at is None:
            why = f"; {policy.why}" if policy.policy != "never" else ""
            self._fault("node_died", child.describe() + why, child.name)
            return False
        self._forward_output()
        os.close(child.output)
        child.output = -1
        self._due[child.name] = at
        _say(f"{child.describe()}; it is started again")
        return True

    def _fault(self, name: str, text: str, node: str = LAUNCHER) -> None:
        newest = self._status.get(PLANT)
        self.outcome.faults.append({"name": name, "text": text, "t": newest.t if newest else 0.0, "node": node})

    def _stop_all(self) -> None:
        """SIGINT, then SIGTERM, then SIGKILL, each with its time.

        A second Ctrl-C skips the first wait, and with it the safe action. Nothing skips the second, in which a machine
        outside is told zero and the end.
        """
        for number, patience in STOP_LADDER:
            for child in self._living():
                if number is signal.SIGKILL:
                    _say(f"{child.name} did not end within {STOP_LADDER[1][1]:g} s of SIGTERM: it is killed")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, number)
                    os.kill(child.pid, signal.SIGCONT)  # a stopped process cannot end
            limit = time.monotonic_ns() + round(patience * 1e9)
            while (
                self._living() and time.monotonic_ns() < limit and (self._interrupts < 2 or number is not signal.SIGINT)
            ):
                self._forward_output()
                self._reap_stopped()
                time.sleep(0.002)
            if not self._living():
                break
        self._forward_output()
        for child in self.children.values():
            if child.output >= 0:
                os.close(child.output)
                child.output = -1

    def _living(self) -> list[Child]:
        return [child for child in self.children.values() if child.code is None]

    def _reap_stopped(self) -> None:
        for child in self._living():
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                child.code = os.waitstatus_to_exitcode(status)
                if child.code < 0:
                    self._fault("node_died", child.describe(), child.name)

    def _forward_output(self) -> None:
        """Print what the nodes wrote, each line behind the node's name."""
        for child in (*self.children.values(), *self.recording.children):
            with contextlib.suppress(BlockingIOError):
                while child.output >= 0 and (chunk := os.read(child.output, 65536)):
                    *lines, child.partial = (child.partial + chunk).split(b"\n")
                    for line in lines:
                        print(f"[{child.name}] {line.decode(errors='replace')}", file=sys.stderr)  # noqa: T201


def _held(name: str) -> RunFolder:
    """The folder of a run; BusError where it cannot be had or written."""
    try:
        return run_folder(name)
    except OSError as error:
        raise _unwritable(run_path(name), error) from error


def _unwritable(folder: Path, error: OSError) -> BusError:
    remedy = "make room there, or set XDG_RUNTIME_DIR to another folder of yours"
    return BusError(f"{folder}: cannot be written ({error.strerror}); {remedy}")


def _say(text: str) -> None:
    print(f"[launcher] {text}", file=sys.stderr, flush=True)  # noqa: T201


def _is_ready(asker: Requester) -> bool:
    try:
        return bool(asker.ask({"ask": "ready"}, 0.2).get("ready"))
    except TimeoutError:
        return False
