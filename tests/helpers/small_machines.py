"""Small textbook machines, and the way to compile them and laws on them through the kernel cache."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sympy import cos, sin

from servonode.controllers import load_law
from servonode.controllers.engine.law import ServoLaw
from servonode.controllers.engine.law_description import describe_program
from servonode.controllers.engine.law_source import law_source
from servonode.controllers.engine.program import Program
from servonode.controllers.engine.servo import derive_servo
from servonode.definitions import cache
from servonode.mechanics import Model, ModelError, constraint, coordinate, input_, output, parameter, time, velocity
from servonode.mechanics.derive import derive
from servonode.mechanics.description import ProgramDescription
from servonode.mechanics.machine import Machine, load_machine
from tests.helpers.packaged import machine_key, model_factory


def bead() -> Model:
    """Bead on a hoop that is forced to turn about its vertical diameter: alpha' = w0 + w1 sin t."""
    theta = coordinate("theta", "angle of the bead from the bottom", "rad")
    alpha = coordinate("alpha", "angle of the hoop", "rad")
    q = velocity("Omega", "rate of the bead's angle", "rad/s")
    m = parameter("m", "mass of the bead", "kg", default=0.3, above=0)
    R = parameter("R", "radius of the hoop", "m", default=0.8, above=0)
    I = parameter("I", "inertia of the hoop about its diameter", "kg m^2", default=0.05, above=0)  # noqa: E741
    g = parameter("g", "gravity", "m/s^2", default=9.81, above=0)
    k = parameter("k", "viscous friction of the bead", "N m s/rad", default=0.02, at_least=0)
    w0 = parameter("w0", "mean rate of the hoop", "rad/s", default=3.0)
    w1 = parameter("w1", "varying part of the rate of the hoop", "rad/s", default=0.7)
    F = input_("F", "torque on the bead", "N m")
    w = w0 + w1 * sin(time)
    return Model(
        name="bead",
        description="bead on a turning hoop",
        parameters=(m, R, I, g, k, w0, w1),
        kinematics={theta: q, alpha: w},
        velocities=(q,),
        kinetic=(m * R**2 * (theta.rate**2 + sin(theta) ** 2 * alpha.rate**2) + I * alpha.rate**2) / 2,
        potential=-m * g * R * cos(theta),
        dissipation=k * theta.rate**2 / 2,
        constraints=(constraint("drive", "torque that turns the hoop", alpha.rate - w, "N m"),),
        inputs={F: theta.rate},
        outputs=(output("acceleration", "of the bead's angle", q.rate, "rad/s^2"),),
    )


def cart_pole() -> Model:
    """Cart on a line with a pole; theta = 0 hangs down."""
    x = coordinate("x", "position of the cart", "m")
    theta = coordinate("theta", "angle of the pole", "rad")
    v = velocity("v", "speed of the cart", "m/s")
    w = velocity("w", "rate of the pole", "rad/s")
    M = parameter("M", "mass of the cart", "kg", default=1.3, above=0)
    m = parameter("m", "mass of the bob", "kg", default=0.4, above=0)
    L = parameter("L", "length of the pole", "m", default=0.6, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, above=0)
    F = input_("F", "force on the cart", "N")
    bob = (x.rate + L * theta.rate * cos(theta)) ** 2 + (L * theta.rate * sin(theta)) ** 2
    return Model(
        name="cart_pole",
        description="cart with a pole",
        parameters=(M, m, L, g),
        kinematics={x: v, theta: w},
        velocities=(v, w),
        kinetic=(M * x.rate**2 + m * bob) / 2,
        potential=-m * g * L * cos(theta),
        inputs={F: x.rate},
    )


def plate() -> Model:
    """Plate on a frictionless plane, pushed by two forces at P and a torque; centre of mass d ahead."""
    x, y = coordinate("x", "position of P", "m"), coordinate("y", "position of P", "m")
    psi = coordinate("psi", "heading", "rad")
    vx, vy = velocity("vx", "speed of P along x", "m/s"), velocity("vy", "speed of P along y", "m/s")
    w = velocity("w", "yaw rate", "rad/s")
    m = parameter("m", "mass", "kg", default=2.0, above=0)
    I = parameter("I", "inertia about the centre of mass", "kg m^2", default=0.1, above=0)  # noqa: E741
    d = parameter("d", "centre of mass ahead of P", "m", default=0.4)
    Fx, Fy = input_("Fx", "force at P along x", "N"), input_("Fy", "force at P along y", "N")
    N = input_("N", "torque", "N m")
    centre = (x.rate - d * psi.rate * sin(psi)) ** 2 + (y.rate + d * psi.rate * cos(psi)) ** 2
    return Model(
        name="plate",
        description="plate on a plane",
        parameters=(m, I, d),
        kinematics={x: vx, y: vy, psi: w},
        velocities=(vx, vy, w),
        kinetic=(m * centre + I * psi.rate**2) / 2,
        inputs={Fx: x.rate, Fy: y.rate, N: psi.rate},
    )


def machine(build: Callable[[], Model], parameters: Mapping[str, float] = {}, *definitions: Path) -> Machine:
    """The compiled machine of one of the functions above, or of one that stands in `definitions`."""
    return load_machine(_key("machine", build.__name__, *definitions), build, parameters)


def refusal_of(build: Callable[..., Model], **changes: Any) -> str:
    """What is said of a model with these changes, which cannot be stated or not be derived."""
    with pytest.raises(ModelError) as caught:
        derive(build(**changes))
    return str(caught.value)


def packaged_law(
    program: str, on: Machine, damping: float = 0.0, parameters: Mapping[str, float] = {}, **options: str
) -> ServoLaw:
    """The law of a packaged program on a packaged machine whose settings are the default ones."""
    name = on.description.name
    return load_law(program, on, machine_key(name, {}), model_factory(name), options, parameters, damping)


def law(
    name: str,
    build_model: Callable[[], Any],
    build: Callable[[Any], Program],
    on: Machine,
    *definitions: Path,
) -> ServoLaw:
    """The compiled law of a program that a test states; `definitions` are the files that define it."""

    def make() -> tuple[str, bytes]:
        model = build_model()
        servo = derive_servo(derive(model), build(model))
        return law_source(servo), msgspec.json.encode(describe_program(servo))

    kernel, description = cache.load(_key("law", name, *definitions), make)
    return ServoLaw(msgspec.json.decode(description, type=ProgramDescription), kernel, on, {})


def _key(kind: str, name: str, *definitions: Path) -> str:
    engine = ("controllers.engine.law_source", "controllers.engine.servo", "mechanics", "mechanics.machine_source")
    texts = (each.read_text() for each in (Path(__file__), *definitions))
    return cache.key_of("test", kind, name, cache.code_digest(*engine), *texts)
