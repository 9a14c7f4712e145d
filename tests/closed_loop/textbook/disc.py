"""Thin disc or hoop that rolls on a horizontal plane.

(x, y) is the contact point, psi the heading h of the rolling, theta the lean to its right, phi the angle rolled about
the axle. The axle is horizontal and to the left of h at theta = 0 and rises by theta.
"""

from sympy import cos, sin

from servonode.mechanics import Model, constraint, coordinate, parameter


def model() -> Model:
    """A rolling disc."""
    x, y = coordinate("x", "contact point", "m"), coordinate("y", "contact point", "m")
    psi, theta = coordinate("psi", "heading", "rad"), coordinate("theta", "lean", "rad")
    phi = coordinate("phi", "angle rolled", "rad")
    m = parameter("m", "mass", "kg", default=0.5, above=0)
    r = parameter("r", "radius", "m", default=0.3, above=0)
    k = parameter("k", "diametral inertia over m r^2: 1/4 disc, 1/2 hoop", "1", default=0.25, above=0)
    g = parameter("g", "gravity", "m/s^2", default=9.81, at_least=0)

    # the centre is r (cos(theta) up - sin(theta) left) from the contact point
    centre_x = x.rate + r * (theta.rate * cos(theta) * sin(psi) + psi.rate * sin(theta) * cos(psi))
    centre_y = y.rate + r * (psi.rate * sin(theta) * sin(psi) - theta.rate * cos(theta) * cos(psi))
    centre_z = -r * theta.rate * sin(theta)
    axial = phi.rate + psi.rate * sin(theta)
    turning = theta.rate**2 + (psi.rate * cos(theta)) ** 2 + 2 * axial**2
    return Model(
        name="disc",
        description="disc that rolls on a plane",
        coordinates=(x, y, psi, theta, phi),
        parameters=(m, r, k, g),
        kinematics={x: r * phi.rate * cos(psi), y: r * phi.rate * sin(psi)},
        kinetic=m * (centre_x**2 + centre_y**2 + centre_z**2) / 2 + k * m * r**2 * turning / 2,
        potential=m * g * r * cos(theta),
        constraints=(
            constraint("Rx", "force of the plane along x", x.rate - r * phi.rate * cos(psi)),
            constraint("Ry", "force of the plane along y", y.rate - r * phi.rate * sin(psi)),
        ),
    )
