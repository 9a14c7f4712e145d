"""The operator's requests to a run in progress: arm, disarm, reset, emergency stop, status.

An emergency stop goes to the plant's own process, first as a signal, which needs no connection, then as a request,
whose answer confirms it; it needs no launcher. This module imports only the bus and nothing heavy, so that the signal
is sent a fraction of a second after the command was typed.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from signal import SIGUSR1
from typing import Any

from servonode.bus.durations import extras, gathered, in_rows
from servonode.bus.processes import Named
from servonode.bus.requests import Requester
from servonode.bus.run_folder import BusError
from servonode.bus.topology import PLANT, TARGET
from servonode.errors import ServonodeError
from servonode.operator.find_runs import Found, find_run, find_runs, folders_of_runs, no_run_error

ANSWER_S = 2.0  # s (wall clock) to wait for an answer
PAUSED_S = 0.1  # s (wall clock) between two looks whether a run is paused, at most
AGAIN_S = 0.1  # s (wall clock) between two attempts to arm
CONFIRM_S, LOOK_S = (1.5, 0.25)  # s (wall clock) for the confirmation of a stop, and between two searches for the plant


class OperatorError(ServonodeError, RuntimeError):
    """The plant refuses a request; the text is its reason. later: whether it may accept it without an operator."""

    exit_code = 1
    later = False


class NeverArmed(OperatorError):
    """A run that was waited for will not be armed: it has ended, or only an operator can remove what is in the way."""

    exit_code = 2


class NoAnswer(OperatorError, TimeoutError):
    """A node did not answer, or its answer cannot be read; the text says what to do."""

    later = True


class NotStopped(OperatorError):
    """An emergency stop that not every run confirmed; the text has a line for each run that did not."""


def arm(name: str | None = None, *, wait: float = 0.0) -> str:
    """Let commands reach the machine of run `name` (absent: the only one in progress); returns its lifecycle.

    name: the run's name, or its folder where two runs have the same name. wait: seconds for which to try again while
    the run does not exist yet, or its machine has not answered. A run that ends meanwhile is not replaced by the next
    one of its name.

    Raises:
        OperatorError: the plant refuses; NoAnswer (one of these): it does not answer; NeverArmed (one of these): there
            is no use in waiting; BusError: there is no such run.
    """
    return str(armed(name, wait)["lifecycle"])


def armed(name: str | None, wait: float) -> dict[str, Any]:
    """The plant's answer to `arm`, as of `order`."""
    limit = time.monotonic() + wait
    awaited: tuple[str, Any] | None = None  # folder and start time of the run that was found first
    while True:
        try:
            run = find_run(name)
            found = str(run.path), run.registry.get("start")
            if awaited not in (None, found):
                raise NeverArmed(f"the run has ended, and another one named {run.name!r} is in progress; arm that one")
            awaited = found if wait else None
            return order("arm", str(run.path))
        except BusError:
            if awaited is not None:
                raise NeverArmed("the run has ended; it was not armed") from None
            if time.monotonic() >= limit or len(find_runs(name)) > 1:  # a single one has begun since
                raise
        except OperatorError as error:
            if wait and not error.later:
                raise error if isinstance(error, NeverArmed) else NeverArmed(str(error)) from None
            if time.monotonic() >= limit:
                raise
        time.sleep(max(min(AGAIN_S, limit - time.monotonic()), 0.0))


def disarm(name: str | None = None) -> str:
    """Have the machine take its safe action and ignore commands until it is armed again; otherwise as `arm`."""
    return str(order("disarm", name)["lifecycle"])


def reset(name: str | None = None, *, estop: bool = False, origin: bool = False) -> str:
    """Clear latched faults: the run stays safe until it is armed again; otherwise as `arm`.

    estop: clear an emergency stop as well, which otherwise stays latched, with the lifecycle `fault`. origin: accept
    the positions of a machine that has started anew, without which it is not armed.
    """
    if origin:
        found = order("reset_origin", name)
        return str((order("reset_estop", name) if estop and found["lifecycle"] == "fault" else found)["lifecycle"])
    return str(order("reset_estop" if estop else "reset", name)["lifecycle"])


def estop(*names: str) -> dict[str, str]:
    """Stop the machines of these runs at once (absent: of all in progress); returns their lifecycles by name.

    All are stopped at the same time. The stop is latched: `reset(name, estop=True)`, then `arm`, to continue.

    Raises:
        NotStopped: a run did not confirm; BusError: there is no such run. The others are stopped all the same.
    """
    stops, unknown = stop_all(names)
    failed = [f"{stop.run}: {stop.text}" for stop in stops if not stop.confirmed]
    if failed:
        raise NotStopped("\n".join([*failed, *map(str, unknown)]))
    if unknown:
        raise unknown[0]
    return {stop.run: stop.lifecycle for stop in stops}


def status(name: str | None = None) -> dict[str, Any]:
    """The status of run `name` (absent: the only one in progress): {"run", "pid", "pids", "nodes"}.

    pid is the launcher's process, pids those of the nodes by their names. nodes has for each its lifecycle, fault, safe
    state, plant time, counts and values, or {"error": why it does not answer}; for the plant also all latched `faults`.
    """
    run = find_run(name)
    nodes = sorted(run.registry.get("nodes") or [PLANT], key=lambda node: (node != PLANT, node))
    answers = _at_once(lambda node: _asked(run, node, "status", ANSWER_S), nodes)
    stands = {node: {"error": str(each)} if isinstance(each, Exception) else each for node, each in answers.items()}
    pids = {node: pid for node in nodes if (pid := (run.registry.get("pids") or {}).get(node))}
    return {"run": run.name, "pid": run.registry.get("pid", 0), "pids": pids, "nodes": stands}


def pause(name: str | None = None) -> float:
    """Have the time of a simulated plant stand still from the next control instant on; returns that time [s].

    Nothing is asked of the controller meanwhile, and no timeout passes; otherwise as `arm`.
    """
    return float(paused("pause", name)["t"])


def resume(name: str | None = None) -> str:
    """Let the time of a paused plant pass again; otherwise as `arm`."""
    return str(order("resume", name)["lifecycle"])


def step(periods: int = 1, name: str | None = None) -> float:
    """Let a paused plant pass through so many control periods; returns the time at which it is paused again [s].

    Without a controller a period is the time between two states; otherwise as `arm`.
    """
    return float(paused("step", name, periods=periods)["t"])


def speed(factor: float | None, name: str | None = None) -> str:
    """Let the time of a simulated plant pass `factor` times as fast as wall-clock time; otherwise as `arm`.

    None: in lockstep, as fast as the nodes answer.
    """
    return str(order("speed", name, speed="max" if factor is None else factor)["lifecycle"])


def paused(verb: str, name: str | None, **arguments: Any) -> dict[str, Any]:
    """Send pause or step, and wait until plant time stands still; the plant's status then, with `run`.

    Raises OperatorError where a fault, a disarming, or somebody else's resume comes first.
    """
    run = find_run(name)
    answer = order(verb, str(run.path), **arguments)
    return at_pause(str(run.path), answer["lifecycle"])


def at_pause(name: str | None, before: str = "active") -> dict[str, Any]:
    """The status of a run's plant, with `run`, once plant time stands still; `before`: its lifecycle until then.

    Raises OperatorError as `paused`.
    """
    run = find_run(name)
    nap = PAUSED_S / 16
    while True:
        stands = _asked(run, PLANT, "status", ANSWER_S) | {"run": run.name}
        if stands.get("paused"):
            return stands
        if stands.get("lifecycle") not in (before, "active"):
            text = f": {stands['fault']}: {stands['text']}" if stands.get("fault") else ""
            raise OperatorError(f"{run.name} is not paused, because its plant is {stands.get('lifecycle')}{text}")
        if stands.get("pauses_at") is None:
            raise OperatorError(f"{run.name} is not paused: it was resumed by somebody else")
        time.sleep(nap)
        nap = min(2 * nap, PAUSED_S)


def reset_since(folder: str, then: float) -> bool:
    """Whether the emergency stop of a run was certainly cleared after `then` [s, monotonic], by any clock of the plant.

    Where the plant does not answer at once it is not certain.
    """
    asked = time.monotonic()
    try:
        ago = _asked(find_run(folder), PLANT, "status", LOOK_S).get("reset_ago")
    except (BusError, NoAnswer):
        return False
    return ago is not None and asked - 1.01 * ago > then  # clocks may differ by 1 %


def order(verb: str, name: str | None, **arguments: Any) -> dict[str, Any]:
    """Send a request to the plant of a run; returns its answer, with `run`, `lifecycle` and perhaps `note`."""
    run = find_run(name)
    return _done(verb, run, _asked(run, PLANT, verb, ANSWER_S, **arguments))


def ask(run: Found, node: str, verb: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a node to a request with these arguments. Raises OperatorError where it refuses, NoAnswer."""
    return _done(verb, run, _asked(run, node, verb, ANSWER_S, **arguments))


def _done(verb: str, run: Found, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request that was carried out; OperatorError where it was refused."""
    if not answer.get("done"):
        refusal = OperatorError(_refusal(verb, answer))
        refusal.later = bool(answer.get("later"))
        raise refusal
    return {"lifecycle": "", **answer, "run": run.name}


def publish_goal(name: str | None = None, /, **goal: float) -> float:
    """Give run `name` (absent: the only one in progress) goals from outside, as publish_goal(x=1.0, y=2.0).

    The target node judges them, and follows all of them or none. Returns the plant time [s] from which it does.

    Raises:
        OperatorError: a value or a name is refused; NoAnswer (one of these): the node does not answer; BusError: there
            is no such run.
    """
    return float(set_goal(name, goal)["t"])


def set_goal(name: str | None, goal: Mapping[str, float]) -> dict[str, Any]:
    """As `publish_goal`; returns the target node's answer, with `run`."""
    values: dict[str, float] = {}
    for each, value in goal.items():
        with suppress(TypeError, ValueError, OverflowError):
            values[each] = float(value)
        if not math.isfinite(values.get(each, math.nan)):
            raise OperatorError(f"{each} = {value!r:.40} is not a finite number; give one in SI units")
    run = find_run(name)
    if TARGET not in (run.registry.get("nodes") or [TARGET]):
        raise OperatorError(f"{run.name} has no controller, and so no goal; add [controller] to its launch file")
    return _done("goal", run, _asked(run, TARGET, "goal", ANSWER_S, goal=values))


@dataclass(frozen=True)
class Stop:
    """The result of the emergency stop of one run. pid: the plant's process, 0 where it is not known."""

    run: str  # name of the run; its folder where two have the same name
    folder: str
    pid: int
    signalled: bool
    confirmed: bool  # whether the plant has answered that it is stopped, in the state `lifecycle`
    lifecycle: str = ""
    text: str = ""  # why it is not confirmed

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def stop_all(names: Sequence[str]) -> tuple[list[Stop], list[BusError]]:
    """Stop all these runs at once (none: all in progress); returns their results, and errors for unknown names.

    Runs whose folder this environment does not lead to are found by their processes, after the others were signalled.
    Every known process gets its signal before any request is sent. Two runs with one name are both stopped. Raises
    BusError where no name was given and no run is in progress.
    """
    found: dict[str | None, list[Found]] = {}
    stopping: dict[str, _Stopping] = {}
    for of_processes in (False, True):
        found = {name: folders_of_runs(name, of_processes) for name in names or (None,)}
        for run in (run for runs in found.values() for run in runs if str(run.path) not in stopping):
            stopping[str(run.path)] = _Stopping(run)
            stopping[str(run.path)].signal()
    stopping = {path: each for path, each in stopping.items() if each.signalled or each.run.lives()}
    missing = [name for name, runs in found.items() if not any(str(run.path) in stopping for run in runs)]
    if None in missing:
        raise no_run_error(None)
    stops: list[Stop] = list(_at_once(lambda path: stopping[path].confirm(), stopping).values())
    called = [stop.run for stop in stops]
    stops = [stop if called.count(stop.run) == 1 else replace(stop, run=stop.folder) for stop in stops]
    return sorted(stops, key=lambda stop: stop.run), [no_run_error(name) for name in missing]


class _Stopping:
    """The emergency stop of one run."""

    def __init__(self, run: Found) -> None:
        self.run = run
        self.signalled: Named | None = None  # the process to which the signal was sent last

    def signal(self, plant: Named | None = None) -> None:
        """Send the signal to the plant's process, once to each process."""
        plant = plant or self.run.plant()
        if plant not in (None, self.signalled) and plant.send(SIGUSR1, self.run.owner):
            self.signalled = plant

    def confirm(self) -> Stop:
        """Ask until the plant answers or CONFIRM_S is over; a plant started meanwhile is sent the signal too."""
        limit, reason = time.monotonic() + CONFIRM_S, ""
        while time.monotonic() < limit and self.run.lives():
            begun = time.monotonic()
            try:
                return self._answered(_asked(self.run, PLANT, "estop", LOOK_S, expires=False))
            except (OSError, ValueError, RuntimeError) as error:  # no answer, one that cannot be read, or no socket
                reason = f"{error}; "
            # a plant that was not known before, or has been started since, is sent the signal too
            self.run = next(iter(folders_of_runs(str(self.run.path), of_processes=True)), self.run)
            self.signal()
            if self.signalled is None:
                self.signal(self.run.listener())
            time.sleep(max(begun + LOOK_S / 10 - time.monotonic(), 0.0))
        return self._report(text=f"not confirmed: {reason}{self._reached()}")

    def _answered(self, answer: Mapping[str, Any]) -> Stop:
        if answer.get("done"):
            return self._report(confirmed=True, lifecycle=str(answer.get("lifecycle", "")))
        return self._report(text=f"not confirmed: {_refusal('estop', answer)}; {self._reached()}")

    def _reached(self) -> str:
        if self.signalled is None:
            return "its process is unknown" if self.run.lives() else "it is gone"
        if not self.signalled.lives(self.run.owner):
            return f"the plant's process {self.signalled.pid} is gone"
        return f"process {self.signalled.pid} was sent SIGUSR1 and stops as soon as it runs"

    def _report(self, confirmed: bool = False, lifecycle: str = "", text: str = "") -> Stop:
        pid, run = self.signalled.pid if self.signalled else 0, self.run
        return Stop(run.name, str(run.path), pid, self.signalled is not None, confirmed, lifecycle, text)


def _refusal(verb: str, answer: Mapping[str, Any]) -> str:
    return str(answer.get("refused") or answer.get("error") or f"{verb} was answered by {answer}")


def _asked(
    run: Found, node: str, verb: str, timeout_s: float, expires: bool = True, **arguments: Any
) -> dict[str, Any]:
    """The node's answer. Raises NoAnswer; BusError where its address cannot be used."""
    try:
        with Requester(run.path, node) as requester:
            return requester.ask({"ask": verb, **arguments}, timeout_s, expires=expires)
    except (OSError, ValueError) as error:  # no answer in time, or one that cannot be read
        raise NoAnswer(str(error)) from error


def _at_once(work: Callable[[str], Any], names: Iterable[str]) -> dict[str, Any]:
    """Call `work` with all names at the same time; returns its result or its exception, by name."""
    results: dict[str, Any] = dict.fromkeys(names)

    def one(name: str) -> None:
        try:
            results[name] = work(name)
        except (OSError, ValueError, RuntimeError) as error:  # no answer, one that cannot be read, or a refusal
            results[name] = error

    threads = [threading.Thread(target=one, args=(name,)) for name in results]
    for name, thread in zip(results, threads, strict=True):
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads for this user
            one(name)
    for thread in threads:
        if thread.ident is not None:
            thread.join()
    return results


# for people


def status_text(report: Mapping[str, Any]) -> str:
    """The result of `status` as a few lines."""
    lines = [f"{report['run']}  (process {report['pid']})"]
    nodes: Mapping[str, Mapping[str, Any]] = report["nodes"]
    for node, stands in nodes.items():
        pid = report["pids"].get(node)
        lines.append(f"  {node:<11} {_stands(stands)}{f'   process {pid}' if pid else ''}")
        lines += [
            f"  {node:<11} FAULT {each['name']} at t = {each['t']:.3f} s: {each['text']}" for each in _latched(stands)
        ]
        lines += [f"  {node:<11} {text}" for text in _preview(stands)]
        if stands.get("link"):
            lines.append(f"  {node:<11} {stands['link']}")
        if latency := stands.get("values", {}).get("link_latency"):
            lines.append(f"  {node:<11} link latency {latency * 1e3:.3f} ms")
    rows = in_rows({node: gathered(stands.get("values", {})) for node, stands in nodes.items()})
    lines += [f"  {node:<11} {text}" for node, text in rows]
    lines += [f"  {node:<11} {text}" for node, stands in nodes.items() if (text := extras(stands.get("values", {})))]
    for node, stands in nodes.items():
        counts = {word: n for word, n in stands.get("counts", {}).items() if n}
        if counts:
            lines.append(f"  {node:<11} {', '.join(f'{word} {n}' for word, n in sorted(counts.items()))}")
    return "\n".join(lines)


def status_line(report: Mapping[str, Any]) -> str:
    """The result of `status` in a line: what each node says first."""
    return "   ".join([report["run"], *(f"{node}: {_stands(stands)}" for node, stands in report["nodes"].items())])


def _stands(stands: Mapping[str, Any]) -> str:
    """One node's lifecycle, safe state, time and fault in a line."""
    if "error" in stands:
        return f"NO ANSWER: {stands['error']}"
    parts = [str(stands.get("lifecycle", "?")), *(["PAUSED"] if stands.get("paused") else [])]
    if stands.get("safe_state"):
        parts.append(f"safe state {stands['safe_state']}")
    if isinstance(stands.get("t"), int | float):
        parts.append(f"t = {stands['t']:.3f} s")
    if stands.get("unsafe"):
        parts.append(f"UNSAFE: {', '.join(stands['unsafe'])}")
    if stands.get("fault") and not _latched(stands):
        parts.append(f"FAULT {stands['fault']}: {stands.get('text', '')}")
    if stands.get("held"):
        parts.append(f"GOAL HELD: {stands['held']}")
    return "   ".join(parts)


def _preview(stands: Mapping[str, Any]) -> list[str]:
    """A line on what arming would send now, for a plant whose run only observes."""
    if not stands.get("readonly"):
        return []
    inputs = ", ".join(f"{name} {value:.4g}" for name, value in stands["would_send"].items())
    reasons = f" (limited: {', '.join(stands['would_send_reasons'])})" if stands["would_send_reasons"] else ""
    said = f"arming would send {inputs}{reasons}" if inputs else "no controller answers with an input"
    return [f"READ ONLY: nothing is sent to the machine; {said}"]


def _latched(stands: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The latched faults of a node that lists them, oldest first."""
    return list(stands.get("faults", ()))
