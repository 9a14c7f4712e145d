"""Messages of a run that there is not, for what listens to one."""

from typing import Any

from servonode.bus import Report, State, Status, Target
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import packed


class Talk:
    """Messages of a run of the robot with trailer, whose forward speed is its time."""

    def __init__(self, closed_loop: ClosedLoop, run: int = 7) -> None:
        self.closed_loop, self.run = closed_loop, run
        self.x = closed_loop.start[:-1].copy()

    def header(self, k: int, node: str) -> dict[str, Any]:
        return {"t": k * 1e-3, "seq": k, "run": self.run, "k": k, "mono": 10**9 + k * 10**6, "node": node, "src": 1}

    def state(self, k: int, **more: Any) -> State:
        description = self.closed_loop.machine.description
        if "V" in description.state_names:
            self.x[description.state_names.index("V")] = k * 1e-3
        state = packed(description.layout, self.x.tolist())
        inputs = {name: 1.0 + i for i, name in enumerate(description.input_names)}
        values = {"state": state, "input": inputs, "control": k % 10 == 0} | more
        return State(**self.header(k, "plant"), **values)

    def target(self, k: int) -> Target:
        return Target(**self.header(k, "target"), target={"x": float(k), "y": -float(k), "x_dot": 9.0})

    def report(self, k: int, mono: int = 0) -> Report:
        header = self.header(k, "controller") | ({"mono": mono} if mono else {})
        residual = {"speed": 1e-3, "heading": -2e-3}
        return Report(**header, residual=residual, condition=1.0, saturated=False, compute_s=5e-5, re=k)

    def status(self, k: int, lifecycle: Any = "active", fault: str = "", node: str = "plant") -> Status:
        values = {"round_trip": 3e-4, "lateness": 1e-4}
        return Status(**self.header(k, node), lifecycle=lifecycle, fault=fault, counts={}, values=values)
