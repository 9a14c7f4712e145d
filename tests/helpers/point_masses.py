"""Launch files of a mass on a line, of which regions, margins and optima are known in closed form."""

from typing import Any

from servonode.mechanics import Model, coordinate, input_, parameter


def mass(k: float = 0.0) -> Model:
    """A mass of 1 kg on a line, which a force k x drives away from x = 0."""
    x = coordinate("x", "place", "m")
    m = parameter("m", "mass", "kg", default=1.0, above=0)
    F = input_("F", "force", "N")
    potential = {"potential": -k * x**2 / 2} if k else {}
    return Model(
        name="mass",
        description="a mass on a line",
        coordinates=(x,),
        parameters=(m,),
        kinetic=m * x.rate**2 / 2,
        inputs={F: x.rate},
        **potential,
    )


def launch(
    residual: str, duration: float, rate: float, period: float = 0.001, k: float = 0.0, **sections: Any
) -> dict[str, Any]:
    """A launch file that holds a residual of the mass at a convergence rate [1/s]."""
    plant = {"machine": lambda: mass(k), "step": min(period, 0.005), **sections.pop("plant", {})}
    controller = {"period": period, "residuals": {"goal": residual}, "gains": {"lambda": rate}}
    return {"run": {"duration": duration, "mode": "lockstep"}, "plant": plant, "controller": controller, **sections}
