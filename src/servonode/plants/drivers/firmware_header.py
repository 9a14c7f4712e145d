"""The C header of a machine for firmware: names, sizes, and the schema number, which must agree on both sides."""

from collections.abc import Sequence

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.packets import readings_schema_of, schema_of


def firmware_header(machine: Machine, start: Array, step_ns: int, step_function: str, more: Sequence[str] = ()) -> str:
    """The header's text; `step_function` is the name of the plant step that `servonode show FILE --c` prints.

    more: further lines, of a law in the same file and of sensors.
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
    lines += [" *", " * Sensors z, of firmware that sends readings alone:"] if description.sensors else []
    lines += [
        f" *     {i:2d}  {each.name}  {each.quantity.unit}  {each.quantity.description}"
        for i, each in enumerate(description.sensors)
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
        *_of_sensors(machine),
        *more,
    ]
    return "\n".join(lines) + "\n"


def _of_sensors(machine: Machine) -> list[str]:
    """The lines for firmware that sends readings in place of its state; empty where the machine defines no sensors."""
    description = machine.description
    if not description.sensors:
        return []
    schema = readings_schema_of(
        description.name, description.state_names, description.input_names, (each.name for each in description.sensors)
    )
    return [
        f"#define HIL_READINGS_SCHEMA UINT32_C({schema:#010x}) /* in place of HIL_SCHEMA */",
        f"#define HIL_N_SENSORS {len(description.sensors)}",
    ]
