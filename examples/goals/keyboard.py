"""Drives a run by the keys w, a, s and d in a terminal; without a key for half a second the robot stops.

    servonode run examples/goals/teleop.toml
    python examples/goals/keyboard.py

When it ends or freezes, the run brings the goal to rest.
"""

import os
import select
import sys
import termios
import time
import tty

import servonode

PERIOD = 0.04  # s between two goals: well below the timeout of the launch file
KEPT = 0.5  # s for which a key counts: a terminal repeats a key that is held down, the first time after half a second
GOALS = {"w": (0.3, 0.0), "s": (-0.3, 0.0), "a": (0.15, 0.6), "d": (0.15, -0.6), " ": (0.0, 0.0)}  # m/s, rad/s


def newest_key() -> str:
    """The key that was pressed last since the last call; empty: none was."""
    keys = ""
    while select.select([sys.stdin], [], [], 0.0)[0]:
        if not (read := os.read(sys.stdin.fileno(), 64).decode("utf-8", "replace")):
            raise EOFError("standard input has ended")
        keys = read
    return keys[-1:]


def drive() -> None:
    """Publish the goal of the newest key until q."""
    goal, until = GOALS[" "], 0.0
    while (key := newest_key()) != "q":
        if key in GOALS:
            goal, until = GOALS[key], time.monotonic() + KEPT
        speed, yaw_rate = goal if time.monotonic() < until else GOALS[" "]
        servonode.publish_goal(v=speed, omega=yaw_rate)
        time.sleep(PERIOD)


def main() -> None:
    if not sys.stdin.isatty():
        sys.exit(
            "keyboard.py reads keys from a terminal, and standard input is a file or a pipe; start it in a terminal"
        )
    before = termios.tcgetattr(sys.stdin)
    sys.stderr.write("w: ahead, s: back, a and d: left and right, space: stop, q: end\n")
    try:
        tty.setcbreak(sys.stdin)
        drive()
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except (servonode.ServonodeError, OSError, EOFError) as error:
        sys.exit(f"the goals end: {error}")
