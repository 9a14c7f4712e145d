"""The robot of examples/external_plant.py with drives that take speeds; its arguments are its two addresses."""

import runpy
import sys
from contextlib import suppress
from pathlib import Path

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "external_plant.py"))
SERVO, TORQUE, SPEED = 1.6, 2.0, 60.0  # N m s/rad of the velocity loop; N m; rad/s


class SpeedRobot(EXAMPLE["Robot"]):  # type: ignore[misc]
    """It refuses runs that send efforts. What it holds, and says that it holds, are speeds."""

    def begin(self, setup):
        super().begin(setup)
        if self.running:
            self.limits = [min(SPEED, setup["limits"].get(name, SPEED)) for name in setup["inputs"]]

    def misfit(self, setup):
        wrong = setup.get("command") != "velocity"
        return (
            "this machine takes speeds; set plant.command" if wrong else super().misfit(setup | {"command": "effort"})
        )

    def apply(self, applied):
        super().apply({**applied, "input": applied["speed"]})

    def integrate(self, until):
        while self.running and self.k < until:
            speeds, wheels = self.u, EXAMPLE["rates"](self.x, [0.0, 0.0], self.setup["parameters"])[-2:]
            wanted = [SERVO * (speed - wheel) for speed, wheel in zip(speeds, wheels, strict=True)]
            self.u = [max(-TORQUE, min(TORQUE, each)) for each in wanted]
            super().integrate(self.k + 1)
            self.u = speeds


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        SpeedRobot(*sys.argv[1:3]).serve()
