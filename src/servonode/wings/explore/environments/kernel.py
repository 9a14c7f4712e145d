"""The compiled control period of many machines: `kernels/lib/environment.py` with their machine, law and statements.

What becomes of an input has the bits of a run: the same effects and limits act, in the same order.
"""

from typing import Any

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.definitions import cache
from servonode.kernels.library import library_text, numbers_of
from servonode.mechanics.kernels import sizes_text
from servonode.plants.effect_kernels import effect_sizes, load_effects
from servonode.wings.explore.environments.stated import Stated

_NUMBERS = numbers_of("environment")
GOES_ON, NOT_FINITE, IMPLAUSIBLE, NO_REWARD, DURATION, FAULT, END = (
    _NUMBERS[name] for name in ["GOES_ON", "NOT_FINITE", "IMPLAUSIBLE", "NO_REWARD", "DURATION", "FAULT", "END"]
)
SHARE, PAUSE, N_WORK = _NUMBERS["SHARE"], _NUMBERS["PAUSE"], 24  # entries of what threads share, and their number


def period_of(closed_loop: ClosedLoop, stated: Stated) -> Any:
    """The kernel, `period` and `share`, of environments of this closed loop, with reward and conditions as stated.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    machine, launch, control = closed_loop.machine, closed_loop.launch, closed_loop.known_control
    step = launch.step_ns / 1e9
    law, n_targets = control.law if stated.has_residuals else None, len(control.targets.entries)
    n_goal = n_targets + len(control.signals.entries)
    watched = launch.plant.safety.faults and bool(machine.description.faults)
    follows = law is not None and bool(law.description.states)
    sizes = effect_sizes(machine.n_state, machine.n_inputs) | {
        "n_waiting": control.stated.delay + 1, "n_shown": round(closed_loop.sensor.delay / step) + 1,
        "n_pipe": max(1, *closed_loop.actuator.late_by(step)), "n_targets": n_targets, "n_goal": n_goal,
        "n_observed": machine.n_state + n_targets,
        "n_constants": len(machine.c), "n_columns": len(stated.columns), "n_work": N_WORK, "n_gains": 3,
        "n_y": law.goal_layout.size if law else n_goal, "n_out": law.answer_layout.size if law else 1,
        "n_s": law.n_s if law else 0, "n_memory": len(law.memory()) if law else 0, "n_c_law": len(law.c) if law else 0,
        "watched": watched, "follows": follows, "has_law": law is not None,
    }  # fmt: skip
    given = {"advance": (machine.steps(launch.plant.integrator).__name__, "advance")}
    given |= {name: (machine.kernel.__name__, name) for name in ("input_rates", *["faults"] * watched)}
    if law is not None:
        given |= {name: (law.kernel.__name__, name) for name in ("law", *["follow"] * follows)}
    kernels = load_effects(machine.n_state, machine.n_inputs)
    text = library_text("environment", kernels, sizes, given, {"period"})
    key = cache.key_of("environment", text, repr(stated), cache.code_digest("mechanics.emit"))
    return cache.load(key, lambda: (_source(stated, text), b"{}"), "an environment")[0]


def _source(stated: Stated, text: str) -> str:
    from servonode.wings.explore.environments.stated_source import HEADER, functions_of

    sizes = sizes_text({"n_columns": len(stated.columns), "END": END})
    return f"{HEADER}{sizes}{functions_of(stated)}\n\n{text}"
