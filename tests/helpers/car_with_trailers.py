"""A car with trailers, stated as a user would: places by sums of angles, rolling constraints, energies by bodies."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sympy import Add, cos, diff, sin, tan

from servonode.arrays import Array
from servonode.mechanics import Model, body, constraint, coordinate, input_, parameter, velocity


def car_with_trailers(n: int, wrong: float = 0.0) -> Model:
    """A car that steers, and n trailers, each hitched to the axle before it. `wrong` is an error of the kinematics."""
    x, y = coordinate("x", "rear axle along x", "m"), coordinate("y", "rear axle along y", "m")
    psi, delta = coordinate("psi", "heading of the car", "rad"), coordinate("delta", "steering angle", "rad")
    phi = [coordinate(f"phi{i}", f"hitch angle {i}", "rad") for i in range(1, n + 1)]
    v, w = velocity("v", "speed of the rear axle", "m/s"), velocity("w", "steering rate", "rad/s")
    m = parameter("m", "mass of the car", "kg", default=1200.0, above=0)
    I = parameter("I", "yaw inertia of the car", "kg m^2", default=1500.0, above=0)  # noqa: E741
    I_s = parameter("I_s", "inertia of the steered wheels", "kg m^2", default=2.0, above=0)
    L = parameter("L", "wheelbase", "m", default=2.5, above=0)
    a = parameter("a", "rear axle to the car's centre of mass", "m", default=1.1)
    c = parameter("c", "friction", "N s/m", default=20.0, at_least=0)
    m_t = parameter("m_t", "mass of a trailer", "kg", default=500.0, above=0)
    I_t = parameter("I_t", "yaw inertia of a trailer", "kg m^2", default=400.0, above=0)
    b = [parameter(f"b{i}", f"hitch {i} to its axle", "m", default=2.0 + 0.3 * i, above=0) for i in range(1, n + 1)]
    F, S = input_("F", "driving force", "N"), input_("S", "steering torque", "N m")
    q = (x, y, psi, delta, *phi)

    def rate(place: Any) -> Any:
        return Add(*(diff(place, each) * each.rate for each in q))

    headings = [psi + Add(*phi[:i]) for i in range(n + 1)]
    axles = [(x, y)]
    for length, heading in zip(b, headings[1:], strict=True):
        axles.append((axles[-1][0] - length * cos(heading), axles[-1][1] - length * sin(heading)))
    trailers = [
        body(f"trailer {i}", mass=m_t, velocity=list(map(rate, axle)), inertia=I_t, angular_velocity=rate(heading))
        for i, (axle, heading) in enumerate(zip(axles[1:], headings[1:], strict=True), 1)
    ]
    centre = (x + a * cos(psi), y + a * sin(psi))
    front = (x + L * cos(psi), y + L * sin(psi))
    rolls = [
        constraint(f"N{i}", f"side force on axle {i}", cos(heading) * rate(axle[1]) - sin(heading) * rate(axle[0]))
        for i, (axle, heading) in enumerate(zip(axles, headings, strict=True))
    ]
    steered = psi + delta
    rolls.append(
        constraint("N_f", "side force in front", cos(steered) * rate(front[1]) - sin(steered) * rate(front[0]))
    )
    kinematics, speed, turn = (
        {x: v * cos(psi), y: v * sin(psi), psi: v * tan(delta) / L, delta: w},
        v,
        v * tan(delta) / L,
    )
    for length, angle in zip(b, phi, strict=True):
        own = -speed * sin(angle) / length
        kinematics[angle], speed, turn = own - turn, speed * cos(angle), own
    if n:
        kinematics[phi[-1]] += wrong * v
    return Model(
        name=f"car_{n}",
        description=f"car with {n} trailers",
        coordinates=q,
        kinematics=kinematics,
        velocities=(v, w),
        bodies=(
            body("car", mass=m, velocity=list(map(rate, centre)), inertia=I, angular_velocity=psi.rate),
            body("steered wheels", inertia=I_s, angular_velocity=psi.rate + delta.rate),
            *trailers,
        ),
        parameters=(m, I, I_s, L, a, c, m_t, I_t, *b),
        constraints=rolls,
        inputs={F: cos(psi) * x.rate + sin(psi) * y.rate, S: delta.rate},
        dissipation=c * (x.rate**2 + y.rate**2) / 2,
    )


def kane(q: Mapping[str, float], v: Array, u: Array, p: Mapping[str, float]) -> Array:
    """v' (2,) of the same car by Kane's equations with partial velocities along the axles; no derivation behind it.

    An axle k rolls with the speed V_k v along its heading and turns with W_k v. Both change with the steering and hitch
    angles; their rates are found by a complex step, which rounds but does not truncate.
    """
    names = [name for name in q if name.startswith("phi")]
    angles = np.array([q["delta"], *(q[name] for name in names)])
    lengths = [p[f"b{i}"] for i in range(1, len(names) + 1)]

    def partial_velocities(angles: Any) -> tuple[Any, Any]:
        V, W = [np.ones((), angles.dtype)], [np.tan(angles[0]) / p["L"]]
        for length, angle in zip(lengths, angles[1:], strict=True):
            W.append(-V[-1] * np.sin(angle) / length)
            V.append(V[-1] * np.cos(angle))
        return np.array(V), np.array(W)

    V, W = partial_velocities(angles)
    turning = np.concatenate([[v[1]], np.diff(W) * v[0]])
    V_rate, W_rate = (each.imag / 1e-30 for each in partial_velocities(angles + 1e-30j * turning))
    masses = np.array([p["m"], *[p["m_t"]] * len(names)])
    inertias = np.array([p["I"] + p["m"] * p["a"] ** 2, *[p["I_t"]] * len(names)])
    inertia = masses @ V**2 + inertias @ W**2 + p["I_s"] * W[0] ** 2
    bias = (masses @ (V * V_rate) + inertias @ (W * W_rate) + p["I_s"] * W[0] * W_rate[0]) * v[0]
    M = np.array([[inertia, p["I_s"] * W[0]], [p["I_s"] * W[0], p["I_s"]]])
    h = np.array([bias + p["c"] * v[0], p["I_s"] * W_rate[0] * v[0]])
    result: Array = np.linalg.solve(M, u - h)
    return result
