"""Drives a run by a gamepad: the left stick's speed, the right stick's yaw rate, 25 times a second.

    servonode run examples/goals/teleop.toml
    python examples/goals/gamepad.py [/dev/input/eventN]

It needs Linux and evdev (pip install evdev). When it ends, freezes or loses its device, the goal comes to rest.
"""

import sys
import time
from typing import Any

import servonode

PERIOD = 0.04  # s between two goals: well below the timeout of the launch file
SPEED, YAW_RATE = 0.5, 1.0  # m/s and rad/s at full stick
DEAD = 0.08  # share of the way around the middle that counts as the middle


def find_gamepad(path: str | None) -> Any:
    """The device at this path, else the first one with two sticks."""
    try:
        import evdev
    except ImportError:
        sys.exit("gamepad.py needs evdev, which is not installed here: pip install evdev")
    try:
        found = [evdev.InputDevice(each) for each in ([path] if path else evdev.list_devices())]
    except OSError as error:
        sys.exit(f"{path}: no device can be opened there ({error.strerror}); plug the gamepad in, or name another file")
    for device in found:
        axes = dict(device.capabilities().get(evdev.ecodes.EV_ABS, []))
        if evdev.ecodes.ABS_Y in axes and evdev.ecodes.ABS_RX in axes:
            return device
    sys.exit("no gamepad was found among /dev/input/event*; plug one in, and check that you may read it (group input)")


def share(device: Any, axis: int) -> float:
    """How far a stick is pushed along an axis, from -1 to 1."""
    info = device.absinfo(axis)
    value = 2 * (info.value - info.min) / (info.max - info.min) - 1
    return 0.0 if abs(value) < DEAD else value


def main() -> None:
    device = find_gamepad(sys.argv[1] if len(sys.argv) > 1 else None)
    from evdev import ecodes

    sys.stderr.write(f"{device.name}: left stick up and down, right stick left and right; Ctrl-C ends\n")
    while True:
        speed = -SPEED * share(device, ecodes.ABS_Y)
        yaw_rate = -YAW_RATE * share(device, ecodes.ABS_RX)
        servonode.publish_goal(v=speed, omega=yaw_rate)
        time.sleep(PERIOD)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except (servonode.ServonodeError, OSError) as error:
        sys.exit(f"the goals end: {error}")
