"""A goal for the drone: a position and a heading. It tilts so that its thrust points where the position needs it.

An outer loop wants an acceleration; an inner one, ten times faster, turns the thrust there, taking what the outer loop
adds to the goal's own acceleration as constant.
"""

from sympy import Matrix, cos, sin, sqrt

from servonode.controllers import Program, residual, setpoint, target
from servonode.mechanics import Model, parameter


def program(machine: Model) -> Program:
    """The drone's position follows (X, Y, Z), its heading psi. `rate`: how fast the outer loop acts."""
    drone, g = machine.tree["drone"], machine["g"]
    goal = [target(name, f"goal along {name.lower()}", "m") for name in ("X", "Y", "Z")]
    psi = target("psi", "heading", "rad")
    k = parameter("rate", "rate of the outer loop", "1/s", default=2.5, at_least=0)
    wanted = []
    for name, point, x, v in zip("xyz", goal, drone.position, drone.velocity, strict=True):
        back = setpoint(f"back_{name}", 2 * k * (point.rate - v) + k**2 * (point - x))
        wanted.append((point.derivative(2), back))
    thrust = Matrix([sum(each) for each in wanted]) + Matrix([0, 0, g])  # per mass, wanted
    across = drone.rotation.T * thrust / sqrt(thrust.dot(thrust))  # in the drone's axes: (0, 0, 1) where it has tilted
    ahead = drone.rotation.col(0)
    return Program(
        name="drone",
        description="position and heading of a drone",
        residuals=(
            residual("height", drone.position[2] - goal[2], "height less its goal", "m", rate=3.0),
            residual("pitch", across[0], "thrust wanted along the drone's x axis", rate=25.0),
            residual("roll", across[1], "thrust wanted along the drone's y axis", rate=25.0),
            residual("heading", ahead[1] * cos(psi) - ahead[0] * sin(psi), "heading beside its goal", rate=4.0),
        ),
        parameters=(k,),
        targets=(*goal, psi),
        setpoints=[back for _, back in wanted],
    )
