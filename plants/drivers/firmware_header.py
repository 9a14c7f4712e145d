"""What firmware must know of a machine, as a C header: names, sizes, the schema that both sides must share."""

from collections.abc import Sequence

from servonode.mechanics.machine import Machine
from servonode.plants.drivers.packets import schema_of
from servonode.plants.drivers.safe_map import Array


def firmware_header(machine: Machine, start: Array, step_ns: int, step_function: str, law: Sequence[str] = ()) -> str:
    """The header's text; `step_function` is the name of the plant step that `servonode show FILE --c` prints.

    law: the lines of a law in the same file.
    """
    description = machine.description
    names, inputs = description.state_names, description.input_names
    lines = [f"/* The machine {description.name}, for firmware/machine.h; SI units and radians.", " *", " * States x:"]
    lines += [
        f" *     {i:2d}  {each.name}  {each.unit}  {each.description}" for i, each in enumerate(description.state)
    ]
    lines += [" *", " * Inputs u:"]
    lines += [
        f" *     {i:2d}  {each.name}  {each.unit}  {each.description}" for i, each in enumerate(description.inputs)
    ]
    numbers = ", ".join(f"{each!r}f" for each in start[: machine.n_state].tolist())
    lines += [
        " */",
        f"#define HIL_SCHEMA UINT32_C({schema_of(description.name, names, inputs):#010x})",
        f"#define HIL_N_STATES {machine.n_state}",
        f"#define HIL_N_INPUTS {machine.n_inputs}",
        f"#define HIL_STEP_NS INT64_C({step_ns})",
        f"#define HIL_START {{{numbers}}} /* where a simulation begins */",
        f"#define HIL_PLANT_STEP {step_function} /* of the file that servonode show FILE --c prints */",
        *law,
    ]
    return "\n".join(lines) + "\n"
