"""Has the planned faults of a run begin: notes each, and makes nodes fail."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from threading import Timer
from typing import Any

import msgspec

from servonode.bus.messages import MAX_TEXT
from servonode.bus.processes import Named
from servonode.bus.run_folder import REGISTRY
from servonode.bus.topology import PLANT
from servonode.closed_loop.launch_error import KeyRefused
from servonode.closed_loop.launch_keys import InjectedFault
from servonode.plants.injection import Injection, Injector

MOST = 100  # faults of one run


class InjectedFaults:
    """The faults of one run in the order in which they begin.

    folder: that of the run; None: its nodes are no processes. speed: plant seconds per second of wall-clock time now.
    noted: those that have begun, as the record tells them.
    """

    def __init__(
        self,
        injector: Injector,
        counts: Counter[str],
        folder: Path | None,
        speed: Callable[[], float],
        resolve: Callable[[InjectedFault], Injection],
    ) -> None:
        """resolve: what a fault makes fail."""
        self.noted: list[dict[str, Any]] = []
        self.leave_summary: Callable[[], None] = lambda: None  # called before the plant's own process is killed
        self._injector, self._counts, self._folder, self._speed = injector, counts, folder, speed
        self._waiting = sorted(injector.injections, key=lambda each: each.begin)
        self._resolve = resolve

    @property
    def due(self) -> int | None:
        """The step at which the next one begins; None: none is planned."""
        return self._waiting[0].begin if self._waiting else None

    def add(self, injection: Injection) -> None:
        """Plan one more."""
        self._injector.injections.append(injection)
        self._injector.lifted = False
        self._waiting = sorted([*self._waiting, injection], key=lambda each: each.begin)

    def begin(self, k: int) -> None:
        """Have those begin that are due at step k."""
        self._injector.k = k
        while self._waiting and self._waiting[0].begin <= k:
            each = self._waiting.pop(0)
            self.noted.append(each.as_dict(self._injector.step))
            self._counts[f"injected_{each.on}_{each.kind}"] += 1
            if each.on == "node":
                self._fail_node(each)

    def request(self, stated: object, k: int) -> dict[str, Any]:
        """Plan the fault that an operator asks for, from step k on unless it says when; what is answered.

        stated: the keys of a [[fault]], whose types nobody has checked.
        """
        now = k * self._injector.step
        if not isinstance(stated, dict):
            return {"refused": "the request has no fault; ask with the keys of a [[fault]]"}
        if len(self._injector.injections) >= MOST:
            return {"refused": f"this run has had {MOST} faults, the most that it takes; start another one"}
        try:
            fault = msgspec.convert({"at": now, **stated}, InjectedFault)
            injection = self._resolve(fault)
        except KeyRefused as error:
            return {"refused": f"{error.key}: {error.text}"[:MAX_TEXT]}
        except msgspec.ValidationError as error:
            return {"refused": f"this is no fault: {error}; servonode fault --help says how to ask"[:MAX_TEXT]}
        late = max(k - injection.begin, 0)
        injection = replace(injection, begin=injection.begin + late, end=injection.end + late)
        self.add(injection)
        return {"done": True, "t": injection.begin * self._injector.step}

    def lift(self) -> None:
        """End the faults of the link, so that a stop reaches the machine."""
        self._injector.lift_link()
        self._waiting = [each for each in self._waiting if each.on != "link"]

    def _fail_node(self, injection: Injection) -> None:
        """Kill a node's process, or keep it from running for as long as the fault lasts [plant s]."""
        (node,), kills = injection.names, injection.kind == "kill"
        stall_s = (injection.end - injection.begin) * self._injector.step / self._speed()
        if node == PLANT:
            if kills:
                self.leave_summary()
                os.kill(os.getpid(), SIGKILL)
            time.sleep(stall_s)
            return
        process = self._process(node)
        if process is None or not process.send(SIGKILL if kills else SIGSTOP, os.getuid()):
            self._counts["injected_in_vain"] += 1  # it has ended, or runs on another computer
        elif not kills:
            timer = Timer(stall_s, process.send, (SIGCONT, os.getuid()))
            timer.daemon = True  # the launcher too continues what it is to end
            timer.start()

    def _process(self, node: str) -> Named | None:
        """The process of a node of this run, by the registry; None where it is not known."""
        with suppress(OSError, ValueError, AttributeError):
            assert self._folder is not None
            registry = json.loads((self._folder / REGISTRY).read_text())
            pid, start = (registry[word].get(node) for word in ("pids", "starts"))
            return Named.read({"pid": pid, "start": start, "space": registry["space"]})
        return None
