"""What a report carries so that a browser computes its run again, with other numbers: a module, and how it is used."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers import ServoLaw
from servonode.controllers.engine.layout import CROSSED, NOT_FINITE, SINGULAR, UNSOLVED, YIELDED, kept_columns
from servonode.controllers.engine.signals import Signals
from servonode.controllers.inversion.feedforward import Feedforward
from servonode.definitions import cache
from servonode.mechanics.description import Requirement
from servonode.plants.drawn import drawing_behind
from servonode.plants.record_layout import PlantRecordLayout
from servonode.plants.view import View
from servonode.record.run import Run
from servonode.simulation.simulate import can_fuse
from servonode.views.panels import columns_of
from servonode.views.scene import Scene
from servonode.wings.web.embedded import numbers
from servonode.wings.web.preparing import ANY_LENGTH, Functions, Prepared
from servonode.wings.web.varying import keys_of

INSTANTS = 300  # at which the machine is drawn, at most
LARGEST = 60_000  # bytes of a module: its data lie below its stack
MOST_NOISE = 25_000  # numbers of drawn noise, of which each takes 11 bytes
CHECKED = 60  # rows whose numbers a browser compares
COMPUTED = (
    "x",
    "c",
    "c_law",
    "c_believed",
    "K",
    "bounds",
    "late",
    "measured",
    "drive",
    "errors",
    "believed",
)  # by steps
ZERO, NEGLIGIBLE = 1e-9, 1e-6  # a size; a share of the largest number of a run
_MARK = 1.2345e34  # a condition number that stands for any


def live_of(run: Run, paths: Iterable[str] = ()) -> dict[str, Any]:
    """What a browser needs to compute the run again; `reason`: why it cannot. paths: columns that views draw.

    Raises:
        CacheError: the kernel cache cannot be read or written.
    """
    if reason := obstacle(run):
        return {"reason": reason}
    loop, every = run.closed_loop, int(run.k[1] - run.k[0]) if len(run.k) > 1 else 1
    prepared = Prepared(loop, every)
    if wrong := prepared.differing():
        return {"reason": f"Python alone prepares its {', '.join(wrong)}."}
    if prepared.random and prepared.arrays["noise"].size > MOST_NOISE:
        return {"reason": f"Its sensors draw {prepared.arrays['noise'].size:,} random numbers, too many for a file."}
    functions, columns = Functions(prepared.functions), list(_columns(run))
    _more(loop, functions)
    module = cache.wasm_of({name: (kernel.__name__, each) for name, (kernel, each) in functions.items()})
    if len(module) > LARGEST:
        return {"reason": f"Its equations take {len(module) / 1000:.0f} kB, too many to be computed here."}
    varying, scene = keys_of(prepared), Scene.of(run)
    return {
        "module": base64.b64encode(module).decode(), "function": prepared.function, "every": every,
        "step_ns": loop.launch.step_ns, "numbers": numbers(prepared.flat(), "f8"), "offsets": prepared.offsets,
        "sizes": {name: len(each) for name, each in prepared.numbers.items()},
        "arrays": {name: _array(prepared, name, each) for name, each in prepared.arrays.items()},
        "steps": _plain(prepared.steps), "call": _plain(prepared.call), "random": prepared.random,
        "keys": varying.keys, "fixed": varying.fixed, "columns": columns, "paths": list(paths), "instants": INSTANTS,
        "layout": _layout(loop), "views": [_drawn(each, scene) for each in scene.views()],
        "texts": _texts(loop), "check": _check(run, [each[0] for each in columns]),
    }  # fmt: skip


def obstacle(run: Run) -> str:
    """Why a browser cannot compute a run again; empty: it can."""
    loop = run.closed_loop
    if not len(run.t):
        return "It has no row."
    if run.control != "sampled":
        return "This is a record of processes; the report of servonode simulate computes its run again."
    if loop.has_own_controller:
        return "Its controller is Python, which a browser does not compute."
    if loop.live or loop.member is not None:
        return "Its goals come from outside, or from another robot."
    if loop.estimation is not None:
        return "Its law works on the estimate of a filter, which only servonode's nodes compute."
    if loop.launch.fault:
        return "Faults are injected into it, which only servonode's nodes do."
    if not can_fuse(loop):
        return "Its machine is not moved by its equations alone, but by a driver or drives that only servonode has."
    if loop.control and isinstance(loop.control.signals, Feedforward):
        return "It follows a bounded solution that was computed before the run."
    return ""


def _array(prepared: Prepared, name: str, array: Array) -> dict[str, Any]:
    """An array: its kind, how many numbers it has, and what stands in it before a step."""
    whole, found = array.dtype == np.int64, dict[str, Any]()
    if name == "times" or (name in ANY_LENGTH and not (prepared.is_perfect and name in ("sent", "due"))):
        found["rows"] = ANY_LENGTH.get(name, "instants")
        found["n"] = int(np.prod(array.shape[1:], dtype=int))
        found |= {"fill": -1} if name == "due" else {}
    else:
        found["n"] = array.size
        known = (array.view(np.int64) if array.size else array) != 0
        if np.any(known) and name not in COMPUTED:
            found["v"] = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return found | ({"whole": True} if whole else {})


def _plain(value: Any) -> Any:
    """With infinite numbers as texts."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if not isinstance(value, float) or np.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _more(loop: ClosedLoop, functions: Functions) -> None:
    """Add the functions that make columns of rows, and that say what is wrong."""
    machine, described = loop.machine, loop.machine.description
    kernel = machine.kernel
    functions |= {name: (kernel, name) for name in ("energies", "monitored", "residuals")}
    if described.n_drawn:
        functions["drawn"] = machine.drawing_kernel, "drawn"
    if described.faults:
        functions["faults"] = kernel, "faults"
        functions["step"] = machine.steps(loop.launch.plant.integrator), "step"
    if described.requirements:
        functions["requirements"] = kernel, "requirements"
    if loop.control is not None:
        law, own = loop.control.law, loop.control.law.description
        functions["law"] = law.kernel, "law"
        for name, stated in (("tracked", own.tracked), ("watched", own.watches), ("conditions", own.requirements)):
            if stated:
                functions[name] = law.kernel, name


def _columns(run: Run) -> Iterator[tuple[str, str, int]]:
    """Each column of the report by name: where its numbers are, and which of them."""
    loop, described = run.closed_loop, run.closed_loop.machine.description
    part, known = PlantRecordLayout.of(described), dict[str, tuple[str, int]]()
    known |= {each: ("row", part.state.start + i) for i, each in enumerate(described.state_names)}
    known |= {each: ("row", part.state.start + i) for i, each in enumerate(described.columns)}
    known |= {each.name: ("monitored", i) for i, each in enumerate(described.outputs)}
    known |= {each: ("row", part.inputs.start + i) for i, each in enumerate(described.input_names)}
    held = len(described.constraints)
    known |= {f"residual_{each.name}": ("residuals", held + i) for i, each in enumerate(described.stabilised)}
    trails = [each for view in described.drawing for each in view.shapes if each.columns and not each.recorded]
    known |= {name: ("drawn", each.at + i) for each in trails for i, name in enumerate(each.columns)}
    known |= {"energy": ("energy", 0), "goal_t": ("goal_t", 0)}
    if loop.control is not None:
        law, kept = loop.control.law.description, loop.control.law.record_layout
        known |= {f"residual_{each.name}": ("answer", kept.residuals.start + i) for i, each in enumerate(law.residuals)}
        known |= {f"scale_{each.name}": ("answer", kept.scales.start + i) for i, each in enumerate(law.limits)}
        known |= {each.name: ("answer", kept.margins.start + i) for i, each in enumerate(kept_columns(law))}
        known |= {each.name: ("answer", kept.states.start + i) for i, each in enumerate(law.states)}
        known |= {each.name: ("watched", i) for i, each in enumerate(law.watches)}
        targets = loop.control.targets
        places = range(len(targets.entries))[targets.positions]
        known |= {f"target_{name}": ("target", at) for name, at in zip(targets.names, places, strict=True)}
        n = len(law.tracked)
        known |= {f"output_{each.residual}": ("tracked", i) for i, each in enumerate(law.tracked)}
        known |= {f"goal_{each.residual}": ("tracked", n + i) for i, each in enumerate(law.tracked)}
    yield from ((name, *known[name]) for name in columns_of(run) if name in known)


def _layout(loop: ClosedLoop) -> dict[str, Any]:
    """Where the parts of rows and goals are, and sizes."""
    machine, part = loop.machine, PlantRecordLayout.of(loop.machine.description)
    sizes, found = machine.sizes, dict[str, Any]()
    found |= {
        "row": part.computed.stop, "n_state": machine.n_state, "n_tau": machine.n_inputs, "x": part.x.start,
        "inputs": part.inputs.start, "n_full": sizes["n_full"], "monitored": sizes["n_monitored"],
        "residuals": sizes["n_residuals"],
        "watched_faults": loop.launch.plant.safety.faults and bool(machine.description.faults),
        "drawn": machine.description.n_drawn, "input_names": list(machine.description.input_names),
        "input_units": [each.unit for each in machine.description.inputs],
    }  # fmt: skip
    if loop.control is not None:
        law = loop.control.law
        goal, answer = law.goal_layout, law.answer_layout
        found |= {
            "y": goal.size, "targets": goal.targets.stop - goal.targets.start, "signals_at": goal.signals.start,
            "signals": goal.signals.stop - goal.signals.start, "states_at": goal.states.start,
            "own": len(law.description.states), "own_at": law.record_layout.states.start,
            "answer": law.record_layout.size, "out": answer.size, "condition": answer.condition.start,
            "margins": answer.margins.start, "active": answer.active.start, "clipped": loop.safety.clipped,
            "tracked": len(law.description.tracked), "watched": len(law.description.watches),
            "conditions": len(law.description.requirements) + len(law.description.warnings),
            "predictor": loop.control.stated.predictor,
            "tables": {"targets": _table(loop.control.targets), "signals": _table(loop.control.signals)},
        }  # fmt: skip
    return found


def _table(signals: Signals | Feedforward) -> bool:
    """Whether a compiled table gives them."""
    return isinstance(signals, Signals) and signals.kernel is not None


def _drawn(view: View, scene: Scene) -> dict[str, Any] | None:
    """What the numbers of a drawing are in a view; None: its outline is Python's."""
    drawn = drawing_behind(view)
    if drawn is None:
        return None
    kinds = {"line": True, "circle": True, "arrow": getattr(view.arrows, "__self__", None) == drawn}
    shapes = [each for each in drawn.described.shapes if kinds.get(each.kind)]
    own = getattr(view.caption, "__self__", None) == drawn
    return {
        "shapes": msgspec.to_builtins(shapes), "factor": drawn.factor, "space": view.projection is not None,
        "caption": drawn.described.caption if own else "", "caption_at": drawn.described.caption_at,
        **_ground(view, scene),
    }  # fmt: skip


def _ground(view: View, scene: Scene) -> dict[str, Any]:
    """The lines of a machine's file beside its drawing, where they stay as they are; `moving`: they do not."""
    if view.guides is None or getattr(getattr(view.guides, "func", None), "__self__", None) is not None:
        return {"ground": [], "moving": False}
    ends = [scene.instant(i).lines(view.guides, view.size) for i in (0, len(scene.run.t) - 1)]
    stays = len(ends[0]) == len(ends[1]) and all(np.array_equal(*pair) for pair in zip(*ends, strict=True))
    return {"ground": [np.round(each, 5).tolist() for each in ends[0]] if stays else [], "moving": not stays}


def _texts(loop: ClosedLoop) -> dict[str, Any]:
    """The words for faults and refusals."""
    described = loop.machine.description
    found: dict[str, Any] = {
        "faults": [{"name": each.name, "text": each.text} for each in described.faults],
        "requirements": [_requirement(each) for each in described.requirements],
    }
    if loop.control is not None:
        law = loop.control.law
        found["guards"] = [each.text for each in law.description.guards]
        found["conditions"] = [_requirement(each) for each in law.description.requirements]
        for name, status in (("singular", SINGULAR), ("crossed", CROSSED), ("not_finite", NOT_FINITE)):
            answer = law.answer()
            answer.status, answer.out[law.answer_layout.condition] = status, _MARK
            found[name] = law.explain(answer).replace(f"{_MARK:.3g}", "{0}")
        found |= _texts_of_keeps(law)
    return found


def _texts_of_keeps(law: ServoLaw) -> dict[str, Any]:
    """Why a law that keeps stops, with places for what the browser knows."""
    answer, keeps = law.answer(), law.description.keeps
    marked = {name: each._replace(tolerance=_MARK) for name, each in law.keep_numbers.items()}
    law = law.keeping(marked, *law.limits)
    answer.margins[:], answer.active[:1], told = _MARK, -1.0, list[str]()
    for i in range(len(keeps)):
        answer.status = len(law.description.guards) + 1 + i
        told.append(law.explain(answer).replace(f"{_MARK:.4g}", "{0}").replace(f"{_MARK:.3g}", "{1}"))
    answer.status = YIELDED
    names = [each.quantity.name for each in keeps]
    yielded = law.explain(answer).replace(f" {''.join(names[:1])} would", " {0} would")
    answer.status = UNSOLVED
    units = [f" {each.quantity.unit}".removesuffix(" 1") for each in keeps]
    rises = [min(each.degrees) > 0 for each in keeps]  # whether its margin must be below its value at the start
    found = {"keeps": told, "keep_names": names, "keep_units": units, "keep_rises": rises}
    return found | {"yielded": yielded, "unsolved": law.explain(answer)}


def _requirement(each: Requirement) -> dict[str, Any]:
    return {"text": each.text, "strict": each.strict, "relation": each.relation, "names": list(each.names)}


def _check(run: Run, names: list[str]) -> dict[str, Any]:
    """Some rows of the run, and the numbers of all columns there; none behind a fault."""
    end = len(run.t) if not run.fault else int(np.searchsorted(run.t, run.fault["t"], side="left"))
    rows = np.unique(np.linspace(0, max(end - 1, 0), CHECKED).astype(int))
    columns = columns_of(run)
    spans = spans_of({name: columns[name][:end] for name in names})
    known = {name: numbers(columns[name][rows], "f8") for name in names}
    return {
        "rows": rows.tolist(),
        "columns": known,
        "spans": spans,
        "fault": run.fault is not None,
    }


def spans_of(columns: Mapping[str, Array]) -> dict[str, float]:
    """The range of each column, by which differences are judged; 0 where it is nothing but rounding.

    What stays below a millionth of the run's largest number, such as a residual that only rounding moves, is judged by
    that, not by a range that has a few units of the last place.
    """
    finite = {name: values[np.isfinite(values)] for name, values in columns.items()}
    sizes = {name: float(np.max(np.abs(values), initial=0.0)) for name, values in finite.items()}
    least = NEGLIGIBLE * max(sizes.values(), default=0.0)
    return {
        name: max(float(np.ptp(values)), NEGLIGIBLE * sizes[name], least) if sizes[name] >= ZERO else 0.0
        for name, values in finite.items()
    }
