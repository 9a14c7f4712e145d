"""The compiled sampled loop of a closed loop: `kernels/lib/loop.py` with its machine, law and sizes.

A loop without effects has none of their operations. What the effects of the other differ by are numbers at its call.
"""

from typing import Any

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers import ServoLaw
from servonode.controllers.engine.layout import CLIPPED
from servonode.definitions import cache
from servonode.kernels.library import library_text, numbers_of
from servonode.plants.effect_kernels import effect_sizes, load_effects
from servonode.plants.record_layout import PlantRecordLayout

_loops: dict[tuple[object, ...], Any] = {}  # loaded ones, by what their texts depend on


def loop_of(closed_loop: ClosedLoop, law: ServoLaw, imperfect: bool) -> Any:
    """The kernel of the loop of a closed loop, with the effects of imperfect drives and sensors or without.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    plant, kernels = closed_loop.launch.plant, (closed_loop.machine.kernel, law.machine.kernel, law.kernel)
    key = *(each.__name__ for each in kernels), plant.integrator, plant.safety.faults, imperfect
    if key not in _loops:
        source = _source(closed_loop, law, imperfect)
        _loops[key] = cache.load(cache.key_of("loop", source), lambda: (source, b"{}"))[0]
    return _loops[key]


def _source(closed_loop: ClosedLoop, law: ServoLaw, imperfect: bool) -> str:
    machine, integrator = closed_loop.machine, closed_loop.launch.plant.integrator
    goal, answer, kept = law.goal_layout, law.answer_layout, law.record_layout
    watched = closed_loop.launch.plant.safety.faults and bool(machine.description.faults)
    sizes = effect_sizes(machine.n_state, machine.n_inputs) | row_sizes(closed_loop) | {
        "n_constants": len(machine.c), "n_c_believed": len(law.machine.c), "n_c_law": len(law.c), "n_gains": len(law.K),
        "n_y": goal.size, "n_targets": _length(goal.targets), "n_signals": _length(goal.signals),
        "n_own": _length(goal.states), "n_integrals": _length(goal.integrals), "n_memory": len(law.memory()),
        "n_out": answer.size, "n_s": law.n_s, "n_recorded": _length(answer.recorded), "n_answer": kept.size,
        "n_progress": 3, "n_run_state": len(numbers_of("imperfect")),
        "targets_at": goal.targets.start, "signals_at": goal.signals.start, "states_at": goal.states.start,
        "integrals_at": goal.integrals.start, "residuals_at": answer.residuals.start,
        "recorded_at": answer.recorded.start, "determinant_at": answer.determinant.start,
        "keeping_at": answer.keeping.start, "keeps": law.description.keeping,
        "CLIPPED": CLIPPED,
        "answer_step": kept.step.start, "answer_recorded": kept.recorded.start, "answer_states": kept.states.start,
        "watched": watched, "follows": bool(law.description.states), "imperfect": imperfect,
        "tells_crossings": law.description.tells_crossings,
    }  # fmt: skip
    steps, believed = (each.steps(integrator).__name__ for each in (machine, law.machine))
    given = {"advance": (steps, "advance"), "advance_believed": (believed, "advance")}
    given |= {
        name: (machine.kernel.__name__, name)
        for name, is_there in (("faults", watched), ("input_rates", imperfect))
        if is_there
    }
    given |= {name: (law.kernel.__name__, name) for name in ("law", *["follow"] * sizes["follows"])}
    if not imperfect:
        return library_text("loop", {}, sizes, given, {"run", "rows"})
    kernels = load_effects(machine.n_state, machine.n_inputs)
    return library_text("loop", kernels, sizes, given, {"run", "rows", "imperfect", "period"})


def row_sizes(closed_loop: ClosedLoop) -> dict[str, int]:
    """The sizes of a row of a machine's record, and where its parts begin."""
    row = PlantRecordLayout.of(closed_loop.machine.description)
    return {
        "n_row": row.computed.stop,
        "row_step": row.step.start,
        "row_x": row.x.start,
        "row_inputs": row.inputs.start,
    }


def _length(part: slice) -> int:
    return int(part.stop - part.start)
