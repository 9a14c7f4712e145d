"""An arm with two elastic joints: each motor turns its link through a torsion spring (Spong 1987)."""

from sympy import cos

from servonode.mechanics import Model, coordinate, input_, parameter


def two() -> Model:
    """Two links with point masses at their ends."""
    theta = [coordinate(f"theta_{i}", f"angle of link {i}, from hanging down", "rad") for i in (1, 2)]
    phi = [coordinate(f"phi_{i}", f"angle of motor {i}", "rad") for i in (1, 2)]
    m = [parameter(f"m_{i}", f"mass of link {i}", "kg", default=1.0, above=0) for i in (1, 2)]
    L = [parameter(f"L_{i}", f"length of link {i}", "m", default=0.5, above=0) for i in (1, 2)]
    J = parameter("J", "moment of inertia of each motor", "kg m^2", default=0.02, above=0)
    k = parameter("k", "stiffness of each joint", "N m/rad", default=80.0, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)
    tau = [input_(f"tau_{i}", f"torque of motor {i}", "N m") for i in (1, 2)]
    first = (L[0] * theta[0].rate) ** 2
    second = first + (L[1] * theta[1].rate) ** 2
    second += 2 * L[0] * L[1] * theta[0].rate * theta[1].rate * cos(theta[0] - theta[1])
    twists = (phi[0] - theta[0], phi[1] - (theta[1] - theta[0]))
    return Model(
        name="elastic_arm_2",
        description="two links with elastic joints",
        coordinates=(*theta, *phi),
        parameters=(*m, *L, J, k, g),
        kinetic=(m[0] * first + m[1] * second + J * (phi[0].rate ** 2 + phi[1].rate ** 2)) / 2,
        potential=-g * ((m[0] + m[1]) * L[0] * cos(theta[0]) + m[1] * L[1] * cos(theta[1]))
        + k * (twists[0] ** 2 + twists[1] ** 2) / 2,
        inputs={tau[0]: phi[0].rate, tau[1]: phi[1].rate},
    )
