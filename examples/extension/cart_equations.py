"""A cart on a rail as a machine, and its position as a program."""

from servonode.controllers import Program, residual, target
from servonode.mechanics import Model, coordinate, input_, parameter


def model(mass: float = 2.0) -> Model:
    """A cart that a motor pushes along a rail."""
    x = coordinate("x", "position of the cart along the rail", "m")
    m = parameter("m", "mass of the cart", "kg", default=mass, above=0)
    F = input_("F", "force on the cart", "N")
    return Model(
        name="cart",
        description="cart on a rail",
        coordinates=(x,),
        parameters=(m,),
        kinetic=m * x.rate**2 / 2,
        inputs={F: x.rate},
        safe={F: -m * x.rate},
    )


def program(machine: Model) -> Program:
    """The cart is at a target."""
    goal = target("goal", "position of the target along the rail", "m")
    return Program(
        name="cart_position",
        description="the cart is at a target",
        residuals=(residual("position", machine["x"] - goal, "position less that of the target", "m"),),
        targets=(goal,),
    )
