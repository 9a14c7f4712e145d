"""Leads a base by a joystick or gamepad of Linux: ahead and back the speed, left and right the yaw rate.

    servonode run examples/base/joystick.toml --page
    python examples/base/joystick.py [/dev/input/js0]

It needs nothing but Linux. When it ends, or the joystick is unplugged, the run brings its goal to rest.
"""

import os
import struct
import sys
import time

import servonode

EVENT = struct.Struct("IhBB")  # time [ms], value, type, number
AXIS, FULL = 2, 32767  # the type of an event of an axis (with 0x80 for its first value), and its largest value
SPEED, YAW_RATE = 0.4, 1.5  # m/s and rad/s at full stick
DEAD, PERIOD = 0.08, 0.04  # share of the way that counts as the middle; s between two goals


class Joystick:
    """The axes of a joystick, by number, each from -1 to 1."""

    def __init__(self, path):
        self.file, self.axes, self.rest = os.open(path, os.O_RDONLY | os.O_NONBLOCK), {}, b""

    def read(self):
        """Take what has come. Raises OSError where the joystick is unplugged."""
        while True:
            try:
                data = os.read(self.file, 64 * EVENT.size)
            except BlockingIOError:
                return
            if not data:
                return
            self.rest += data
            whole = len(self.rest) // EVENT.size * EVENT.size
            for _, value, kind, number in EVENT.iter_unpack(self.rest[:whole]):
                if kind & AXIS:
                    self.axes[number] = max(-1.0, value / FULL)
            self.rest = self.rest[whole:]

    def goal(self):
        """Forward speed and yaw rate of the first stick: up is ahead, left turns left."""
        across, up = (each if abs(each := self.axes.get(number, 0.0)) > DEAD else 0.0 for number in (0, 1))
        return {"v": -SPEED * up, "omega": -YAW_RATE * across}


def main(path):
    joystick = Joystick(path)
    sys.stderr.write(f"{path}: stick up and down, left and right; Ctrl-C ends\n")
    while True:
        joystick.read()
        servonode.publish_goal(**joystick.goal())
        time.sleep(PERIOD)


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "/dev/input/js0"
    try:
        main(path)
    except KeyboardInterrupt:
        pass
    except servonode.ServonodeError as error:
        sys.exit(f"the goals end: {error}")
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; plug a joystick in, or name its file, as ls /dev/input/js* shows")
