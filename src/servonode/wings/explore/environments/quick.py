"""The start of an episode as numbers alone, where initial states and parameters are all that varies.

`Variation` makes a closed loop of each draw; here the same kernels give the same numbers without its objects. What is
refused, or looks as if it might be, is left to `Variation`, which says why.
"""

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_error import KeyRefused
from servonode.closed_loop.machine_section import possible_start
from servonode.controllers import ServoLaw

INITIAL, PARAMETER = "plant.initial.", "plant.parameters."


class Numbers(NamedTuple):
    """Where an episode begins: the kernel state, the constants of machine and law."""

    start: Array
    c: Array
    c_law: Array


class Quick:
    """The starts of the episodes of a closed loop in which these keys vary. `fits` says whether it can give them."""

    def __init__(self, base: ClosedLoop, keys: Sequence[str]) -> None:
        plant, control, machine = base.launch.plant, base.known_control, base.given_machine
        names, controller = machine.description.state_names, control.stated
        alone = dict(machine.description.layout)  # an entry of a vector is stated with the others
        states = {f"{INITIAL}{name}": i for i, name in enumerate(names) if name in alone}
        parameters = {f"{PARAMETER}{name}": i for i, name in enumerate(machine.parameters)}
        self._states = [(at, states[key]) for at, key in enumerate(keys) if key in states]
        self._changed = [(at, parameters[key]) for at, key in enumerate(keys) if key in parameters]
        law = None if control.law.description.own else control.law
        self.fits = (
            len(self._states) + len(self._changed) == len(keys)
            and not (base.preparation or base.source.changes or plant.initial.get("on_program") or base.sensing)
            and not (law and (law.description.states or control.inversion))
            and list(control.law.machine.parameters) == list(machine.parameters)
        )
        self._base, self._faults = base, plant.safety.faults
        self._machine, self._law = copy(machine), copy(law)
        self._p, self._machine.c = np.array(list(machine.parameters.values())), machine.c.copy()
        if law is None or not self.fits:
            return
        assert self._law is not None
        self._y, self._law.c, self._p_law = control.goal(0.0), law.c.copy(), law._p()
        first = len(machine.parameters)
        self._believed = [
            (at, i) for at, i in self._changed if keys[at].removeprefix(PARAMETER) not in controller.parameters
        ]
        own = list(law.parameters)
        found = enumerate(law.description.found)
        lists = {name for name, value in controller.settings.items() if isinstance(value, list)}
        given = {name for name in own if name in controller.settings or name.rpartition("_")[0] in lists}
        self._found = [(i, first + own.index(name), name) for i, name in found if name not in given]
        self._unstarted = base.derived_law.law.parameters if base.derived_law else {}
        self._values, self._quantities = np.zeros(len(law.description.found)), law.description.parameters

    def at(self, values: Sequence[float]) -> Numbers | None:
        """The numbers with these values of the keys; None: it is for `Variation` to say. They are written over."""
        base, machine, law = self._base, self._machine, self._law
        x, description = base.stated_start.copy(), machine.description
        for at, i in self._states:
            x[i] = values[at]
        for at, i in self._changed:
            self._p[i] = value = values[at]
            if description.parameters[i].complaint(value):
                return None
        if self._changed:
            found = np.zeros((3, len(description.requirements)))
            machine.kernel.requirements(self._p, found)
            if not all(
                each.met(margin) for each, margin in zip(description.requirements, found[0].tolist(), strict=True)
            ):
                return None
            machine.kernel.constants(self._p, machine.c)
        if not np.isfinite(x).all():
            return None
        try:
            assembled, start = possible_start(machine, x, self._faults)
        except KeyRefused:
            return None
        if law is None:
            return Numbers(start, assembled.c, self._p[:0])
        return Numbers(start, assembled.c, law.c) if self._starts(law, values, x, start) else None

    def _starts(self, law: ServoLaw, values: Sequence[float], x: Array, start: Array) -> bool:
        """Whether the law, whose constants are made anew, answers there."""
        for at, i in self._believed:
            self._p_law[i] = values[at]
        if self._found:
            for _, at, name in self._found:
                self._p_law[at] = self._unstarted[name]
            law.kernel.start(0.0, x, self._y, self._p_law, self._values)
            for i, at, name in self._found:
                self._p_law[at] = value = float(self._values[i])
                if any(each.name == name and each.complaint(value) for each in self._quantities):
                    return False
        if self._believed or self._found:
            law.kernel.constants(self._p_law, law.c)
        return law.evaluate(0.0, start, self._y).status == 0
