"""The example of a mobile base: a joystick of a fake device, a driver to copy with a base behind a pseudo-terminal."""

import math
import os
import runpy
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import servonode
from servonode.bus import Applied, BusError, Setup
from tests.helpers.packages import install
from tests.helpers.refusals import refusal

BASE = Path(__file__).parents[1] / "examples" / "base"
STICK, DRIVER, FAKE = (runpy.run_path(str(BASE / f"{name}.py")) for name in ("joystick", "servonode_base", "fake_base"))
COMMON: dict[str, Any] = {"t": 0.0, "k": 40, "run": 7, "mono": 0, "node": "plant", "src": 5}


def event(value: int, kind: int, number: int) -> bytes:
    """An event of Linux's joystick device."""
    return bytes(STICK["EVENT"].pack(123, value, kind, number))


def test_a_joystick_gives_the_goal_of_its_newest_events(tmp_path: Path) -> None:
    device = tmp_path / "js0"
    os.mkfifo(device)
    stick = STICK["Joystick"](device)
    writer = os.open(device, os.O_WRONLY)
    assert stick.goal() == {"v": 0.0, "omega": 0.0}
    os.write(writer, event(-32767, 0x82, 1) + event(1, 0x81, 0) + event(1000, 2, 0) + event(16384, 2, 3)[:5])
    stick.read()
    assert stick.goal() == {"v": STICK["SPEED"], "omega": 0.0}  # a button, the dead zone, and part of an event
    os.write(writer, event(16384, 2, 3)[5:] + event(-32768, 2, 0) + event(32767, 2, 1))
    stick.read()
    assert stick.goal() == {"v": -STICK["SPEED"], "omega": STICK["YAW_RATE"]}
    os.close(writer)


def test_the_goals_of_a_joystick_are_those_that_the_launch_file_takes() -> None:
    report = servonode.check(BASE / "joystick.toml", run__duration=4.0)
    assert report.verdict == "yes"
    targets = servonode.load(BASE / "joystick.toml").closed_loop.launch.target
    most = {name: each.range[1] for name, each in targets.items() if not isinstance(each, str | float | int)}  # type: ignore[index]
    assert most == {"v": STICK["SPEED"], "omega": STICK["YAW_RATE"]}


@pytest.fixture
def wired() -> Iterator[tuple[Any, int]]:
    """The link of the driver, and the base's end of its line."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    link = DRIVER["Base"](os.ttyname(theirs))
    link.open()
    yield link, ours
    link.close()
    link.close()
    os.close(ours)
    os.close(theirs)


def setup(run: int = 7) -> Setup:
    """The setup of a run of base.toml."""
    return msgspec.convert(COMMON | {
        "run": run, "seq": 0, "machine": "mobile_base", "mode": "realtime", "step": 0.01, "period": 0.02, "speed": 1.0,
        "timeout": 0.5, "inputs": ["F", "M"], "limits": {}, "parameters": {}, "start": {}, "command": "velocity",
    }, Setup)  # fmt: skip


def applied(seq: int, **more: Any) -> Applied:
    """Inputs of that run."""
    stated = {"input": {}, "desired": {}, "re": -1, "reasons": [], "repeats": 0}
    return msgspec.convert(COMMON | stated | {"seq": seq} | more, Applied)


def test_the_driver_sends_speeds_and_reads_odometry_over_a_serial_line(wired: tuple[Any, int]) -> None:
    link, line = wired
    os.write(line, b"0 1 2 3 4 5\n")
    assert link.receive() == []  # before a run begins nothing is its state
    link.send("setup", setup())
    link.send("applied", applied(3, speed={"F": 0.25, "M": -1.5}))
    link.send("applied", applied(4))
    sent = b""
    while sent.count(b"\n") < 3:
        sent += os.read(line, 200)
    assert sent == b"-1 0 0\n3 0.25000 -1.50000\n4 0.00000 0.00000\n"
    os.write(line, b"3 1.5 -0.5 0.25 0.2 -1.4\n3 1.5 nan 0 0 0\nnoise\n1 2 3\n1e400 0 0 0 0 0\n4 2 ")
    ((topic, state),) = link.receive()
    assert (topic, state.applied_seq, state.run) == ("state", 3, 7)
    assert state.state == {"X": 1.5, "Y": -0.5, "psi": 0.25, "V": 0.2, "Omega": -1.4}
    assert state.k >= 40
    assert link.counts == {"malformed": 4}
    os.write(line, b"0 0 0 0\n")
    assert [each.applied_seq for _, each in link.receive()] == [4]


def test_a_line_that_is_not_there_is_named() -> None:
    for path, why in (("/nowhere/base", "No such file or directory"), ("/dev/null", "Inappropriate ioctl for device")):
        link = DRIVER["Base"](path)
        assert refusal(BusError, link.open).startswith(f"{path}: {why}; plug the base in, or correct plant.device")
        link.close()


def test_the_driver_is_found_and_its_launch_file_passes_its_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path,
        "servonode-base",
        {"base": "servonode_base:DRIVER"},
        servonode_base=(BASE / "servonode_base.py").read_text(),
    )
    monkeypatch.syspath_prepend(tmp_path)
    report = servonode.check(BASE / "base.toml", run__duration=4.0)
    assert [str(each) for each in report.findings if each.level != "good"] == []
    with pytest.raises(servonode.ServonodeError, match="the base has its own clock"):
        servonode.check(BASE / "base.toml", run__speed=2.0)


def test_the_fake_base_drives_at_the_speed_it_is_sent_and_stops_by_itself() -> None:
    base = FAKE["FakeBase"]()
    base.take(b"5 0.3 0\nnonsense\n6 nan 0\n7 9 ")
    for _ in range(40):
        line = base.move()
    assert line.split()[0] == b"5"
    assert base.x[3] == pytest.approx(0.3, rel=1e-3)
    base.take(b"-9\n")
    assert (base.n, base.wanted) == (7, (0.5, -2.5))  # within its own limits
    for _ in range(90):
        base.move()
    assert math.hypot(*base.x[3:]) < 0.01
