"""A launch file as one C99 file for a microcontroller: plant step, safe action, limits, servo law, controller."""

import re
import textwrap
from collections.abc import Sequence

from servonode.closed_loop.estimation import Sensing
from servonode.controllers import ServoLaw
from servonode.controllers.engine.kernels import LawKernel
from servonode.definitions.cache import text_of
from servonode.export.c_controller import Function, around, struct
from servonode.export.c_export import Exported
from servonode.export.c_head import block_comment, goal, head, law_example, step_example
from servonode.export.c_parts import PublicFunction, argument, array
from servonode.kernels.c99 import WIDTH, c_number, function_names
from servonode.kernels.ir import Module
from servonode.kernels.language import parse
from servonode.mechanics.kernels import ObserverKernel, Signature, StepsKernel
from servonode.plants.sensors import SensorEffects

_DOES = {
    "step": "One step of the simulated machine from the time t [s] on: x advances in place under the held inputs u.",
    "law": "The servo law at the time t [s]: the status.",
    "follow": "The program's own states brought to the time t [s], `passed` s after the last call, into y.",
}


def c_file(e: Exported) -> str:
    """C99 text with `<prefix>_plant_step`, safe action and limits, and, unless there is no law, it and a controller.

    The prefix comes from the name. The numbers are those of the loaded machine and law: parameters, gains, limits, step
    [s]. The text needs nothing but math.h, allocates nothing, keeps nothing between calls and does nothing at its
    start. What of a launch file is not in it stands in its first comment.
    """
    prefix = c_prefix(e.name)
    plant_kernel = parse(text_of(e.machine.steps(e.integrator).__name__), text_of)
    law_kernel = parse(text_of(e.law.kernel.__name__), text_of) if e.law else Module()
    shared = function_names(plant_kernel) & function_names(law_kernel) if e.law else set()
    step = PublicFunction.of(
        f"{prefix}_plant_step", Signature.of(StepsKernel, "step"), plant_kernel,
        {each: f"plant_{each}" for each in shared}, {"c": argument("plant_c", e.machine.c), "h": "SERVONODE_STEP_S"},
    )  # fmt: skip
    kernels = _law_functions(e.law, law_kernel, shared, prefix) if e.law else {}
    y = "self->y" if e.law and e.law.goal_layout.size else "0"
    calls = {word: each.call(y=y, out="self->out", memory="self->memory") for word, each in kernels.items()}
    others = {each.word: each for each in around(e, prefix, calls)}
    before = [each for word, each in others.items() if word in ("SAFE", "LIMIT")]  # of the machine alone
    after = [each for each in others.values() if each not in before]
    example = law_example(e, prefix, kernels, step) if e.law else step_example(step)
    controls = e.law is not None and "CONTROLLER_UPDATE" in others
    parts = [
        block_comment([*head(e), *example]),
        "#include <math.h>",
        _macros(e, prefix, ["PLANT_STEP", *others, *(word.upper() for word in kernels)]),
        *([struct(e, prefix)] if controls else []),
        _prototypes({"step": step} | kernels, list(others.values())),
        *array("plant_c", "what the plant computes from its parameters alone", {"": e.machine.c}),
        step.text,
        *(each.code for each in before),
        *(_law_arrays(e.law) if e.law else []),
        *(each.text for each in kernels.values()),
        *(each.code for each in after),
    ]
    return "\n\n".join(parts) + "\n"


def _law_functions(law: ServoLaw, kernel: Module, shared: set[str], prefix: str) -> dict[str, PublicFunction]:
    """The law, and where the program has states of its own what brings them to a new time; `shared` are renamed."""
    c, K = argument("law_c", law.c), argument("law_K", law.K)
    own = {each: f"follow_{each}" for each in function_names(kernel)}
    of_law, of_follow = (Signature.of(LawKernel, each) for each in ("law", "follow"))
    rename = {each: f"law_{each}" for each in shared}
    functions = {"law": PublicFunction.of(f"{prefix}_law", of_law, kernel, rename, {"c": c, "K": K})}
    if law.description.states:
        functions["follow"] = PublicFunction.of(f"{prefix}_follow", of_follow, kernel, own, {"c": c})
    return functions


def c_prefix(name: str) -> str:
    """A C identifier made of a name: what begins the names of the public functions."""
    prefix = re.sub(r"[^A-Za-z0-9_]", "_", name).strip("_")
    return prefix if prefix[:1].isalpha() else f"run_{prefix}".rstrip("_")


def _macros(e: Exported, prefix: str, words: list[str]) -> str:
    """Sizes and numbers, names without the prefix, and lists for the initialisers of arrays."""
    described = e.machine.description
    sizes = {
        "NAME": (f'"{described.name}"', "the machine"),
        "N_STATE": (str(e.machine.n_state), "measured state, the law's x"),
        "N_X": (str(e.machine.n_state + 1), "simulated state with the work, the plant's x"),
        "N_INPUTS": (str(e.machine.n_inputs), "inputs u, first in out"),
        "N_PARAMETERS": (str(len(described.parameters)), "of the machine"),
        "STEP_S": (c_number(e.step_s), "of the plant [s]"),
    }
    if e.law:
        sizes |= {
            "N_GOAL": (str(e.n_goal), "targets and signals, first in y"),
            "N_Y": (str(e.law.goal_layout.size), "goal y"),
            "N_RESIDUALS": (str(e.law.n_s), "servo residuals"),
            "N_OUT": (str(e.law.answer_layout.size), "result of the law"),
        }
    if e.law and e.period_s:
        sizes["PERIOD_S"] = (c_number(e.period_s), "of the law [s]")
        sizes["DELAY"] = (str(e.delay), "periods after which inputs act")
    lines = [f"#define SERVONODE_{name} {text} /* {words} */" for name, (text, words) in sizes.items()]
    lines += [f"#define SERVONODE_{word} {prefix}_{word.lower()}" for word in words]
    if "CONTROLLER_UPDATE" in words:
        lines.append(f"#define SERVONODE_CONTROLLER {prefix}_controller /* struct */")
    lists = {
        "STATE_NAMES": [f'"{each}"' for each in described.state_names],
        "INPUT_NAMES": [f'"{each}"' for each in described.input_names],
        "PARAMETER_NAMES": [f'"{each.name}"' for each in described.parameters],
        "PARAMETERS": list(map(c_number, e.machine.parameters.values())),
        "START": list(map(c_number, e.start.tolist())),
        "LIMITS": list(map(c_number, e.limits.value)),
        "GOAL_NAMES": [f'"{each.name}"' for each in goal(e.law)[: e.n_goal]] if e.law else [],
    }
    for name, entries in lists.items():
        if entries:
            text = f"#define SERVONODE_{name} {{ {', '.join(entries)} }}"
            lines.append(" \\\n".join(textwrap.wrap(text, WIDTH - 2, subsequent_indent="    ")))
    return "\n".join(lines)


def _prototypes(kernels: dict[str, PublicFunction], others: list[Function]) -> str:
    """What each function does, and its prototype."""
    all_of_them = [(_DOES[word], each.prototype) for word, each in kernels.items()]
    all_of_them += [(each.does, each.prototype) for each in others]
    return "\n\n".join(
        "\n".join([*textwrap.wrap(f"/* {does} */", WIDTH, subsequent_indent=" * "), f"{prototype};"])
        for does, prototype in all_of_them
    )


def _law_arrays(law: ServoLaw) -> list[str]:
    """The law's constants and gains."""
    gains = {f"K{word}, feedback of {of}": matrix
             for word, of, matrix in zip("01I", ("f", "f'", "the integrals of f"), law.K, strict=True)}  # fmt: skip
    return [
        *array("law_c", "what the law computes from its parameters alone", {"": law.c}),
        *array("law_K", "gains, each matrix row by row in the order of the residuals", gains),
    ]


def c_sensors(sensing: Sensing, prefix: str) -> str:
    """C99 text with `<prefix>_measure(t, x, u, z)`: what each sensor measures, without error, at a simulated state."""
    observer = sensing.observer
    module = parse(text_of(observer.kernel.__name__), text_of)
    constants = observer.constants
    function = PublicFunction.of(
        f"{prefix}_measure", Signature.of(ObserverKernel, "measure"), module, {}, {"c": argument("sensor_c", constants)}
    )
    about = f"What the sensors of {observer.machine.description.name} measure without error, into z."
    parts = [
        block_comment([about, *_listed(sensing.effects)]),
        "#include <math.h>",
        f"{function.prototype};",
        *array("sensor_c", "what the sensors compute from the parameters alone", {"": constants}),
        function.text,
    ]
    return "\n\n".join(parts) + "\n"


def sensors_header(sensing: Sensing, prefix: str) -> list[str]:
    """Lines of a C header: which function measures, and the errors of each sensor as the launch file specifies them."""
    rows = ", ".join(f"{{{', '.join(_errors(each))}}}" for each in sensing.effects)
    return [
        f"#define HIL_MEASURE {prefix}_measure /* of the file that servonode hil sensors FILE prints */",
        "/* of each simulated sensor: noise, quantum, steps between two readings, steps of delay, share lost, wraps */",
        f"#define HIL_SENSORS {{{rows}}}",
    ]


def _listed(effects: Sequence[SensorEffects]) -> list[str]:
    stated = [each.description.quantity for each in effects]
    return [f"    {i:2d}  {each.name}  {each.unit}  {each.description}" for i, each in enumerate(stated)]


def _errors(effects: SensorEffects) -> list[str]:
    stated = effects.description
    numbers = (stated.noise, stated.quantum, effects.period, float(effects.delay), stated.drop)
    return [*map(c_number, numbers), str(int(stated.wraps))]
