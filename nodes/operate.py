"""What an operator does to a run that is going on: arm, disarm, reset, stop at once, ask how it stands.

An emergency stop is asked of the plant itself and needs no launcher. This module loads the bus and nothing heavy,
so that the request leaves a tenth of a second after the command was typed.
"""

import json
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from servonode.bus.folder import REGISTRY, BusError, base_folder, endpoint, run_path
from servonode.bus.requests import Requester
from servonode.nodes.statistics import gathered, in_rows

PLANT = "plant"
ANSWER_S = 2.0  # wall s to wait for an answer
FIRST_S, SECOND_S = 0.3, 1.0  # the same for an emergency stop: before and after the signal


class OperatorError(RuntimeError):
    """The plant refuses what was asked; the text is its sentence."""


class NotStopped(OperatorError):
    """An emergency stop that was not confirmed by every run it was asked of; the text has a line for each."""


def arm(name: str | None = None) -> str:
    """Let commands reach the machine of run `name` (absent: the one going on); its lifecycle after that.

    Raises:
        OperatorError: the plant refuses; TimeoutError: it does not answer; BusError: there is no such run.
    """
    return _order("arm", the_run(name))


def disarm(name: str | None = None) -> str:
    """Have the machine take its safe action and ignore commands until it is armed again; otherwise as `arm`."""
    return _order("disarm", the_run(name))


def reset(name: str | None = None) -> str:
    """Let go of a latched fault: the run stays safe until it is armed anew; otherwise as `arm`."""
    return _order("reset", the_run(name))


def estop(*names: str) -> dict[str, str]:
    """Stop the machines of these runs at once (absent: of all that are going on); their lifecycles by name.

    All are asked at the same time. The stop is latched: `reset`, then `arm`, to go on.

    Raises:
        NotStopped: a run did not confirm, the others are stopped; BusError: there is no such run.
    """
    stops = stop_all(names)
    failed = [f"{name}: {result}" for name, result in stops.items() if isinstance(result, Exception)]
    if failed:
        raise NotStopped("\n".join(failed))
    return {name: str(result) for name, result in stops.items()}


def status(name: str | None = None) -> dict[str, Any]:
    """How the nodes of run `name` (absent: the one going on) stand: {"run": ..., "pid": ..., "nodes": {...}}.

    Of each node its lifecycle, fault, rung, plant time, counts and values, or {"error": why it does not answer}.
    """
    name = the_run(name)
    registry = _registry(run_path(name))
    nodes = sorted(registry.get("nodes") or [PLANT], key=lambda node: (node != PLANT, node))
    answers = _at_once(lambda node: _asked(name, node, "status", ANSWER_S), nodes)
    stands = {node: {"error": str(each)} if isinstance(each, Exception) else each for node, each in answers.items()}
    return {"run": name, "pid": registry.get("pid", 0), "nodes": stands}


def the_run(name: str | None) -> str:
    """The run that is meant: `name`, or the only one going on. BusError if it is not there, or not clear."""
    runs = going_on()
    there = f"going on: {', '.join(runs)}" if runs else "none is going on"
    if name is not None:
        if name in runs or _door_pid(name):
            return name
        raise BusError(f"no run named {name!r} is going on; {there}")
    if not runs:
        raise BusError("no run is going on; start one with servonode run FILE")
    if len(runs) > 1:
        raise BusError(f"several runs are going on; name one of {', '.join(runs)}")
    return runs[0]


def going_on() -> list[str]:
    """The names of this user's runs whose launcher or plant lives."""
    names = []
    with suppress(OSError):
        for file in sorted(base_folder().glob(f"*/{REGISTRY}")):
            registry = _registry(file.parent)
            name = registry.get("run")
            if isinstance(name, str) and (_lives(registry.get("pid")) or _door_pid(name)):
                names.append(name)
    return sorted(names)


def stop_all(names: Iterable[str]) -> dict[str, "str | Exception"]:
    """Ask all these runs (none: all that are going on) to stop at once; lifecycle or what went wrong, by name."""
    wanted = [the_run(name) for name in dict.fromkeys(names)] or going_on() or [the_run(None)]
    return _at_once(_stop, wanted)


def _stop(name: str) -> str:
    """An emergency stop of one run: by a request, and by a signal where that is not answered."""
    with suppress(TimeoutError):
        return _order("estop", name, FIRST_S)
    pid = _door_pid(name) or _registry(run_path(name)).get("pids", {}).get(PLANT, 0)
    try:
        if pid:
            os.kill(pid, signal.SIGUSR1)
        return _order("estop", name, SECOND_S)
    except ProcessLookupError:
        raise TimeoutError(f"the plant's process {pid} is gone") from None
    except TimeoutError as reason:
        sent = f"process {pid} was sent SIGUSR1 and stops as soon as it runs" if pid else "its process is not known"
        raise TimeoutError(f"not confirmed: {reason}; {sent}") from None


def _order(verb: str, name: str, timeout_s: float | None = None) -> str:
    """Ask the plant for it; its lifecycle after that. A stop is carried out however late the plant comes to it."""
    answer = _asked(name, PLANT, verb, timeout_s or ANSWER_S, expires=verb in ("arm", "reset"))
    if answer.get("done"):
        return str(answer.get("lifecycle", ""))
    raise OperatorError(str(answer.get("refused") or answer.get("error") or f"{verb} was answered by {answer}"))


def _asked(name: str, node: str, verb: str, timeout_s: float, expires: bool = True) -> dict[str, Any]:
    with Requester(run_path(name), node) as requester:
        return requester.ask({"ask": verb}, timeout_s, expires=expires)


def _at_once(work: Callable[[str], Any], names: Iterable[str]) -> dict[str, Any]:
    """`work` on each name, all at the same time: what it gives, or the exception it raised, by name."""
    results: dict[str, Any] = dict.fromkeys(names)

    def one(name: str) -> None:
        try:
            results[name] = work(name)
        except (OSError, ValueError, RuntimeError) as error:  # no answer, one that is none, a refusal
            results[name] = error

    threads = [threading.Thread(target=one, args=(name,)) for name in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _registry(folder: Path) -> dict[str, Any]:
    """What the run in this folder wrote about itself; empty where it cannot be read."""
    with suppress(OSError, ValueError):
        content = json.loads((folder / REGISTRY).read_text())
        if isinstance(content, dict):
            return content
    return {}


def _lives(pid: Any) -> bool:
    with suppress(OSError, TypeError):
        os.kill(pid, 0)
        return True
    return False


def _door_pid(name: str) -> int:
    """The process that listens at the plant's door of run `name`; 0: nobody does, or the system does not tell.

    Asked of the socket, so it is neither a process that has taken over a dead one's id nor one a registry forgot.
    """
    path = endpoint(run_path(name), PLANT, "req").removeprefix("ipc://")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError, AttributeError):
        probe.settimeout(0.2)
        probe.connect(path)
        return int(struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
    return 0


# for people


def status_text(report: Mapping[str, Any]) -> str:
    """What `status` gave, as a few lines."""
    lines = [f"{report['run']}  (process {report['pid']})"]
    nodes: Mapping[str, Mapping[str, Any]] = report["nodes"]
    for node, stands in nodes.items():
        lines.append(f"  {node:<11} {_stands(stands)}")
    rows = in_rows({node: gathered(stands.get("values", {})) for node, stands in nodes.items()})
    lines += [f"  {node:<11} {text}" for node, text in rows]
    for node, stands in nodes.items():
        counts = {word: n for word, n in stands.get("counts", {}).items() if n}
        if counts:
            lines.append(f"  {node:<11} {', '.join(f'{word} {n}' for word, n in sorted(counts.items()))}")
    return "\n".join(lines)


def _stands(stands: Mapping[str, Any]) -> str:
    """One node's lifecycle, rung, time and fault in a line."""
    if "error" in stands:
        return f"NO ANSWER: {stands['error']}"
    parts = [str(stands.get("lifecycle", "?"))]
    if stands.get("rung"):
        parts.append(f"rung {stands['rung']}")
    if isinstance(stands.get("t"), int | float):
        parts.append(f"t = {stands['t']:.3f} s")
    if stands.get("unsafe"):
        parts.append(f"UNSAFE: {', '.join(stands['unsafe'])}")
    if stands.get("fault"):
        parts.append(f"FAULT {stands['fault']}: {stands.get('text', '')}")
    return "   ".join(parts)
