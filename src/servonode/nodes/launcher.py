"""The launcher: forks the nodes of a run, starts them together, watches and stops them, collects their results."""

import signal
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import structs

from servonode.bus import (
    AnySubscriber,
    Bus,
    BusError,
    Message,
    Parameters,
    Requester,
    RunFolder,
    Status,
    devices_folder,
    run_folder,
    run_path,
)
from servonode.bus.topology import LAUNCHER, NODES, PLANT, RELAY, TARGET, launcher_subscribes, nodes_of
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_file import table_of
from servonode.nodes.fault_ladder import ESTOP
from servonode.nodes.node_main import run_node
from servonode.nodes.node_process import STOP, Progress
from servonode.nodes.node_processes import NodeProcesses, say
from servonode.nodes.plant_time import SPEED
from servonode.nodes.recording import Outcome, Recording, collect

LOOK_NS = 50_000_000  # how often the launcher checks its nodes
MEET_S = 0.05  # how often it looks whether the other computer was met
REMIND_NS = 10_000_000_000  # after which it says what to check
KEYS = " (servonode keys list, or --insecure on both)"
SILENCE_S = 1.0  # added to the timeout of lockstep: a plant without a status for so long hangs

READY_TIMEOUT_S = 20.0
READY_PAUSE_S = 0.002  # between two requests, so that running nodes are not delayed
ENDING_NS = 1_000_000_000  # time in which a process ends after it has closed its sockets


class NodeStatuses:
    """Keeps in `newest` the newest status of each node that has published one, in `changed` its changed numbers."""

    def __init__(self) -> None:
        self.newest: dict[str, Status] = {}
        self.changed: dict[str, Parameters] = {}
        self.plant_ns = 0  # time of the plant's newest status, or from which on its silence is measured

    def take(self, messages: Iterable[tuple[str, Message]]) -> None:
        """Keep what has come."""
        for _, message in messages:
            if isinstance(message, Parameters):
                self.changed[message.node] = message
                continue
            assert isinstance(message, Status)
            self.newest[message.node] = message
            if message.node == PLANT:
                self.plant_ns = time.monotonic_ns()

    @property
    def plant(self) -> Status | None:
        """The newest status of the plant."""
        return self.newest.get(PLANT)

    def lifecycle(self, node: str) -> str:
        """The lifecycle state of a node; empty before its first status."""
        return self.newest[node].lifecycle if node in self.newest else ""


class StartGate:
    """Tells nodes to start. interrupted: tells whether the user has interrupted; fault: called with name and text.

    others_ready: tells whether the nodes of all other robots of the launch are ready, and is called when ours are.
    """

    def __init__(
        self,
        folder: Path,
        processes: NodeProcesses,
        interrupted: Callable[[], bool],
        fault: Callable[[str, str], None],
        others_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._folder, self._processes = folder, processes
        self._interrupted, self._fault, self._others_ready = interrupted, fault, others_ready

    def open(self, waiting: set[str], inbox: AnySubscriber, statuses: NodeStatuses) -> bool:
        """Start the nodes in `waiting` once all are ready, and empty it; False if that fails.

        inbox: the launcher's own, read meanwhile: where a node has taken no connection for HANDSHAKE_MS, as while its
        plant is made, a subscriber of libzmq subscribes again only when it is read.

        If it returns True with some left in it, another node must be restarted before they can be ready.
        """
        processes = self._processes
        with ExitStack() as stack:
            clients = {name: stack.enter_context(Requester(self._folder, name)) for name in waiting}
            limit = time.monotonic_ns() + round(READY_TIMEOUT_S * 1e9)
            while True:
                if processes.reap() or self._interrupted():
                    return False
                waiting.difference_update(processes.dead())
                if RELAY in waiting and processes.children[RELAY].code is not None:  # it has completed
                    self._fault("not_ready", "the other computer has ended its part of the run before all was ready")
                    return False
                unready = [name for name in waiting if not _says(clients[name], "ready", "ready")]
                if processes.due() or (not unready and self._others_ready()):
                    break
                if time.monotonic_ns() > limit and not processes.dead():  # else they wait for a node that is restarted
                    self._fault(
                        "not_ready", f"{', '.join(unready) or 'another robot'} not ready within {READY_TIMEOUT_S:g} s"
                    )
                    return False
                processes.forward_output()
                statuses.take(inbox.receive())
                time.sleep(READY_PAUSE_S)
            return bool(unready) or self._start(clients, waiting)

    def _start(self, clients: dict[str, Requester], waiting: set[str]) -> bool:
        """Tell the nodes to start, the plant last; False if one does not answer and is not restarted."""
        for name in NODES:
            if name not in waiting:
                continue
            try:
                clients[name].ask({"ask": "start"}, READY_TIMEOUT_S / 4)
            except TimeoutError:
                if not self._has_died(name):
                    self._fault("not_ready", f"{name} was ready but did not start")
                    return False
            waiting.discard(name)
        return True

    def _has_died(self, name: str) -> bool:
        """Whether a node that does not answer has died and must be restarted; waits a moment for its death."""
        limit = time.monotonic_ns() + ENDING_NS
        while not self._processes.reap() and time.monotonic_ns() < limit:
            if name in self._processes.dead():
                return True
            time.sleep(READY_PAUSE_S)
        return False


def _says(client: Requester, verb: str, word: str) -> bool:
    """Whether a node answers a request at once, and this word with true."""
    try:
        return bool(client.ask({"ask": verb}, 0.2).get(word))
    except TimeoutError:
        return False


class Launcher:
    """One run on processes. `progress` is called a few times a second with the newest status of each node.

    begun: called once the run has its name, before anything else is started. recording: where the record goes (absent:
    into memory); the caller ends it. arm: whether to arm without the operator; absent: simulations are armed, a device
    waits for `servonode arm`.
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
        self.arm = (closed_loop.driver.simulated if arm is None else arm) and not closed_loop.readonly
        computer, nodes = closed_loop.computer, nodes_of(closed_loop.control is not None)
        self._others = computer.others if computer else ()  # nodes that run on another computer
        nodes = (*computer.nodes, RELAY) if computer else nodes
        self._stands_for_plant = RELAY if PLANT in self._others else PLANT  # whose end is that of the run
        self.processes = NodeProcesses(name, nodes, closed_loop.launch.supervision, self.recording, self._fault)
        self.outcome = Outcome()
        self._statuses = NodeStatuses()
        self._interrupts = 0
        self._stopped = False  # whether an emergency stop came while there was no plant

    def launch(self) -> Outcome:
        """Start, watch and stop the nodes; everything that was made is gone when this returns.

        Raises:
            RunNameTaken: a run of this name is in progress; BusError: there is no private folder, or an address of
                the launch file is in use.
        """
        previous: list[tuple[int, Any]] = []
        try:
            self._handle_signals(previous)  # before anything is made that an exception would leave behind
            self._run()
        finally:
            for number, handler in reversed(previous):  # SIGINT last, which may raise at once
                signal.signal(number, handler)
        return self.outcome

    def _run(self) -> None:
        """Run within the folder of the run, which is gone when this returns, and collect the results."""
        begin = time.monotonic_ns()
        connection, machine = self.closed_loop.connection, self.closed_loop.machine
        has_plant = PLANT not in self._others
        addresses = connection.addresses(machine.description.name) if has_plant else ()
        with _held(self.name) as folder, devices_folder(addresses, bound=addresses[-1] if addresses else ""):
            self.closed_loop.check_keys(self.arm)
            self.closed_loop.check_robots()
            if has_plant:
                connection.check_free(machine.description.name)
                self.closed_loop.check_traffic()
                for text in (*connection.remarks(machine, self.closed_loop.start), *self.closed_loop.motion_notes()):
                    say(text)
            self._supervise(folder)
            wall_s = (time.monotonic_ns() - begin) / 1e9
            collect(self.outcome, self.closed_loop, self.recording, self.processes.restarts(), wall_s)
            self.processes.forward_output()  # the last output of the writer

    def _supervise(self, folder: RunFolder) -> None:
        """Run the nodes, from the first fork to the last exit."""
        try:
            self.recording.begin()
            self.begun()
            self._run_nodes(folder)
        finally:
            if self.closed_loop.member is not None:
                died = next((fault["text"] for fault in self.outcome.faults), "its processes have ended")
                self.closed_loop.member.end(died)
            self.processes.stop_all(hurried=lambda: self._interrupts > 1)

    def _handle_signals(self, previous: list[tuple[int, Any]]) -> None:
        """Handle signals from now on; adds these signals and their previous handlers."""
        handlers: dict[int, Any] = dict.fromkeys((signal.SIGINT, signal.SIGTERM), self._on_signal)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # ignored: the run is under nohup
            handlers[signal.SIGHUP] = self._on_signal
        handlers |= dict.fromkeys((signal.SIGQUIT, STOP), self._on_emergency)
        handlers[signal.SIGTTOU] = signal.SIG_IGN  # else output without a terminal would stop the process
        for number, handler in handlers.items():
            previous.append((number, signal.signal(number, handler)))

    def _run_nodes(self, folder: RunFolder) -> None:
        """Fork the nodes, open the start gate, watch; repeat for the nodes that must be restarted.

        The launcher's own sockets are closed before each fork: a context's threads do not survive one.
        """
        member = self.closed_loop.member
        all_ready = member.get_ready if member else lambda: True
        gate = StartGate(folder.path, self.processes, lambda: self.outcome.interrupted, self._fault, all_ready)
        starting, waiting, again = list(self.processes.nodes), set[str](), False
        if RELAY in starting:
            if not self._meet(folder):
                return
            starting.remove(RELAY)
            waiting.add(RELAY)
        while starting and not self.outcome.interrupted:
            begin = time.monotonic_ns()
            for node in starting:
                self._fork(node, folder, again)
            waiting |= set(starting) - ({RELAY} if again else set())  # which works without a start, and may wait long
            self._register(folder, self._described(), again)
            with Bus(folder.path, LAUNCHER) as bus:
                inbox = bus.subscriber(launcher_subscribes((*self.processes.nodes, *self._others)))
                if not gate.open(waiting, inbox, self._statuses):
                    return
                if waiting:  # for a node that has died meanwhile
                    starting = self.processes.take_due()
                else:
                    self._register(folder, self._described() | {"open": True}, begun=True)
                    if again:
                        took = (time.monotonic_ns() - begin) / 1e9
                        remedy = f"stays safe until servonode reset {self.name} and servonode arm {self.name}"
                        say(f"{', '.join(starting)} back after {took:.2f} s; a plant in fault {remedy}")
                    starting = self._watch(bus, inbox)
            again = True

    def _meet(self, folder: RunFolder) -> bool:
        """Start the relay and wait until it has met the other computer; False where the run was interrupted.

        Raises BusError where the other computer refuses.
        """
        computer = self.closed_loop.computer
        assert computer is not None
        self._fork(RELAY, folder, False)
        self._register(folder, self._described(), False)
        where = f"at {computer.address}" if computer.listens else f"for {computer.address}"
        say(f"waits {where} for the other computer of the run, which has {', '.join(computer.others) or 'no node'}")
        remind_ns = time.monotonic_ns() + REMIND_NS
        while not self.outcome.interrupted:
            if remind_ns and time.monotonic_ns() > remind_ns:
                remind_ns = 0
                side = "runs this launch file" if computer.listens else f"runs it with --on, answers {computer.address}"
                say(f"still waits: check that the other computer {side}, and that each trusts the other's key{KEYS}")
            self.processes.forward_output()
            if self.processes.children[RELAY].has_ended():
                self.processes.forward_output()
                faults = self.recording.memories[RELAY].summary.get("faults", [])
                why = "; ".join(fault["text"] for fault in faults) or "the relay ended; see its message above"
                raise BusError(f"{self.closed_loop.launch.file} [hosts]: {why}")
            with Requester(folder.path, RELAY) as client:
                if _says(client, "status", "met"):
                    return True
            time.sleep(MEET_S)
        return False

    def _register(self, folder: RunFolder, described: dict[str, Any], begun: bool) -> None:
        """Write the registry. BusError where that fails, unless the run has begun, which continues without it."""
        try:
            folder.register((*self.processes.nodes, *self._others), described)
        except OSError as error:
            if not begun:
                raise _unwritable(folder.path, error) from error
            say(f"{folder.path}: cannot be written ({error.strerror}): operators and windows will not find this run")

    def _described(self) -> dict[str, Any]:
        """The registry's data for viewers and operators: the launch file as it runs, the nodes' processes."""
        launch = self.closed_loop.launch
        stated = {"table": table_of(launch), "path": str(launch.path), "file": launch.file}
        return self.processes.described(dict.fromkeys(self._others, RELAY)) | {
            "launch": stated,
            "telemetry": launch.run.telemetry,
            "elsewhere": list(self._others),  # nodes whose times are those of another clock
        }

    def _on_signal(self, number: int, _: Any) -> None:
        self._interrupts += 1
        self.outcome.signal = self.outcome.signal or number

    def _on_emergency(self, *_: Any) -> None:
        """Ctrl-\\: send an emergency stop to the plant by signal, which needs no connection; also to a later plant."""
        self._stopped = not self.processes.emergency(self._stands_for_plant)

    def _fork(self, name: str, folder: RunFolder, again: bool) -> None:
        """Start a node. again: it replaces one that died, and a plant then always waits for the operator."""

        if name == PLANT:
            self.recording.note_start()

        def live() -> int:
            folder.forget()
            arm = self.arm and not again
            changed = self._statuses.changed.get(name)
            closed_loop = self.closed_loop
            if again:  # the time of a new plant begins at 0: it is not to meet the faults of the file once more
                closed_loop = closed_loop.with_parts(launch=structs.replace(closed_loop.launch, fault=[]))
            return run_node(name, closed_loop, folder, self.every, arm, self.recording.memories, changed)

        self.processes.start(name, live)
        plant = self._statuses.plant if name == PLANT and again else None
        stopped_before = plant is not None and plant.values.get(ESTOP)  # which only a reset clears
        if name == self._stands_for_plant and (self._stopped or stopped_before):
            self._on_emergency()

    def _watch(self, bus: Bus, inbox: AnySubscriber) -> list[str]:
        """Show progress until the plant is done, a node dies, or the user interrupts; returns the nodes to restart."""
        launch, processes, statuses = self.closed_loop.launch, self.processes, self._statuses
        limit: int | None = None  # time by which the plant must have stopped by itself
        braking = False
        statuses.plant_ns = time.monotonic_ns()
        while self._plant_goes_on() and not self.outcome.interrupted:
            bus.wait(time.monotonic_ns() + LOOK_NS)
            statuses.take(inbox.receive())
            processes.forward_output()
            if text := self.recording.look():
                say(text)
            unfollowed = statuses.lifecycle(TARGET) == "fault"
            if unfollowed and not self.closed_loop.live:  # goals published in advance would still be followed
                break
            died = processes.reap()
            now = time.monotonic_ns()
            if due := processes.take_due():
                return due
            if PLANT not in processes.dead() and self._plant_hangs():
                break
            if (died or unfollowed) and limit is None:
                limit = now + round(((self.closed_loop.safety.command_timeout or 0.0) * self._slowness() + 1.0) * 1e9)
            if limit is not None and not braking and statuses.lifecycle(PLANT) == "fault":
                braking = True  # the safe action of the plant takes time of its own
                limit += round(
                    self.closed_loop.safety.safe_steps * launch.step_ns / launch.run.speed * self._slowness()
                )
            if limit is not None and (now > limit or launch.run.mode == "lockstep"):
                break
            self.progress(statuses.newest)
        return []

    def _slowness(self) -> float:
        """By how much longer plant time takes than at the speed of the launch file, where an operator changed that."""
        plant = self._statuses.plant
        asked = self.closed_loop.launch.run.speed
        return max(asked / plant.values.get(SPEED, asked), 1.0) if plant else 1.0

    def _plant_goes_on(self) -> bool:
        """Whether the plant's process lives, or must be restarted; one on another computer, as the relay says."""
        plant = self._stands_for_plant
        if plant == RELAY and self._statuses.lifecycle(RELAY) == "finished":
            return False
        return self.processes.children[plant].code is None or plant in self.processes.dead()

    def _plant_hangs(self) -> bool:
        """Whether the plant has published nothing for too long; records it as a fault.

        One on another computer may be out of reach.
        """
        if PLANT in self._others:
            return False
        run, silence = self.closed_loop.launch.run, (time.monotonic_ns() - self._statuses.plant_ns) / 1e9
        if silence <= run.lockstep_timeout + SILENCE_S:
            return False
        name = "lockstep_timeout" if run.mode == "lockstep" else "plant_silent"
        self._fault(name, f"the plant has published nothing for {silence:.1f} s: its process is suspended or hangs")
        return True

    def _fault(self, name: str, text: str, node: str = LAUNCHER) -> None:
        t = self._statuses.plant.t if self._statuses.plant else 0.0
        self.outcome.faults.append({"name": name, "text": text, "t": t, "node": node})


def _held(name: str) -> RunFolder:
    """The folder of a run; BusError where it cannot be created or written."""
    try:
        return run_folder(name)
    except OSError as error:
        raise _unwritable(run_path(name), error) from error


def _unwritable(folder: Path, error: OSError) -> BusError:
    remedy = "make room there, or set XDG_RUNTIME_DIR to another folder of yours"
    return BusError(f"{folder}: cannot be written ({error.strerror}); {remedy}")
