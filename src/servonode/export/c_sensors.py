"""The sensors of a machine in C: what they measure, for firmware that is a simulation of it."""

from collections.abc import Sequence

from servonode.closed_loop.estimation import Sensing
from servonode.definitions.cache import text_of
from servonode.export.c_head import block_comment
from servonode.export.c_parts import PublicFunction, argument, array
from servonode.kernels.c99 import c_number
from servonode.kernels.language import parse
from servonode.mechanics.kernels import ObserverKernel
from servonode.mechanics.signatures import Signature
from servonode.plants.sensors import SensorEffects


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
