"""Firmware on a wire: the robot of `make robot` against ours, its safe action, and every error with its remedy."""

import errno
import os
import pty
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.bus import BusError, State
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.connection import connection_of
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.nodes.driver import driven_plant
from servonode.plants.drivers import cobs, packets, serial_transport
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.frozen import Frozen
from servonode.plants.drivers.packet_link import RESOLUTION, PacketLink
from servonode.plants.drivers.safe_map import safe_map, safe_remarks
from servonode.plants.drivers.serial_transport import SerialTransport, port_problem
from servonode.plants.drivers.udp_transport import UdpTransport
from tests.helpers import machine_packets
from tests.helpers.firmware import Firmware, built, free_udp_port
from tests.helpers.plants import context

LAUNCH = "trailer_pursuit_udp"
WAIT_S = 10.0
ROUNDING = 2.0**-22  # relative to the largest value of a state: four roundings to 32 bits


@pytest.fixture(scope="module")
def closed_loop() -> ClosedLoop:
    return resolve(read_launch(LAUNCH), strict=False)


@contextmanager
def robot(kind: str, folder: Path, *words: str) -> Iterator[tuple[Firmware, tuple[str, ...]]]:
    """The robot on a wire of this kind, and the settings under which it is reached."""
    if kind == "udp":
        port = free_udp_port()
        with Firmware("robot", "--udp", str(port), *words) as started:
            yield started, (f'plant.device.address="127.0.0.1:{port}"',)
    else:
        place = folder / "port"
        with Firmware("robot", "--pty", str(place), *words) as started:
            yield (
                started,
                (f'plant.device.port="{place}"', "plant.device.baud=3000000"),
            )


def until(plant: DevicePlant, holds: Callable[[], bool]) -> None:
    """Wait, within bounds, until this holds."""
    limit = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < limit, plant.remote.no_answer_reason()
        time.sleep(0.0005)


# against ours


@pytest.mark.parametrize("kind", ["serial", "udp"])
def test_in_lockstep_the_robot_moves_as_ours_to_rounding(kind: str, tmp_path: Path) -> None:
    with robot(kind, tmp_path) as (_, settings):
        loop = resolve(read_launch(f"trailer_pursuit_{kind}", ["run.mode=lockstep", *settings]), strict=False)
        plant, own = driven_plant(loop, time.monotonic_ns), loop.plant()
        assert isinstance(plant, DevicePlant)
        plant.open()
        try:
            plant.begin(4242, 0)
            until(plant, plant.remote.connected)
            largest, rng = np.abs(own.x[:-1]), np.random.default_rng(1)
            for _ in range(200):
                inputs = rng.uniform(-0.1, 0.3, 2)
                own.write(inputs.astype(np.float32).astype(float))
                plant.write(inputs)
                plant.advance(10)
                own.advance(10)
                until(plant, plant.remote.arrived)
                largest = np.maximum(largest, np.abs(own.x[:-1]))
                assert plant.k == own.k
                assert np.all(np.abs(plant.x[:-1] - own.x[:-1]) <= 2.0**-24 * largest + 1e-30)
            assert largest[0] > 0.1
            assert plant.remote.fault() is None
        finally:
            plant.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["serial", "udp"])
def test_the_whole_pursuit_on_firmware_is_ours_within_rounding_of_32_bits(kind: str, tmp_path: Path) -> None:
    from tests.helpers.runs import private_runs

    with robot(kind, tmp_path) as (_, settings), private_runs(tmp_path) as runs:
        run = runs.start(f"trailer_pursuit_{kind}", "run.mode=lockstep", *settings, words=("--arm", "--every", "10"))
        run.ends_with(0, 200.0)
        found = run.columns
    ours = servonode.simulate("trailer_pursuit", every=10)
    for name in ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2"):
        difference = np.abs(found[name] - ours.state[name])
        assert difference.max() <= 4 * ROUNDING * np.abs(ours.state[name]).max(), name


# handshakes


@pytest.fixture
def port() -> Iterator[int]:
    """The UDP port of a robot."""
    found = free_udp_port()
    with Firmware("robot", "--udp", str(found)):
        yield found


class Remembering(UdpTransport):
    """Keeps what it sends."""

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self.sent: list[bytes] = []

    def send(self, packet: bytes) -> None:
        self.sent.append(packet)
        super().send(packet)


def asking(loop: ClosedLoop, transport: UdpTransport, speed: float = 1.0, **changes: Any) -> DevicePlant:
    """A plant whose handshake has begun, on other terms."""
    terms = replace(context(loop.machine, loop.start, (0.4, 0.4), speed=speed), **changes)
    plant = DevicePlant(terms, PacketLink(transport, loop.machine, loop.start))
    plant.open()
    plant.begin(4242, 0)
    return plant


def test_a_setup_that_was_long_under_way_does_not_begin_a_run_of_before_again(
    closed_loop: ClosedLoop, port: int
) -> None:
    transport = Remembering(port)
    plant = asking(closed_loop, transport)
    until(plant, plant.remote.connected)
    plant.begin(5252, 0)
    until(plant, plant.remote.connected)
    for _ in range(3):
        transport.send(transport.sent[0])
    until(plant, lambda: plant.remote.arrived() and plant.extra["machine_refused"] == 3.0)
    assert not plant.counts
    plant.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"step_ns": 2_000_000}, "its step is 1000000 ns; set plant.step to that"),
        ({"speed": 2.0}, "it runs only at speed 1; set run.speed = 1"),
        ({"timeout": -1.0}, "the timeout is not positive"),
        ({"limits": {"U1": -1.0}}, "a limit is negative"),
    ],
)
def test_a_run_that_the_robot_cannot_take_part_in_is_refused_by_reason(
    closed_loop: ClosedLoop, port: int, changes: dict[str, Any], text: str
) -> None:
    plant = asking(closed_loop, UdpTransport("127.0.0.1", port), **changes)
    until(plant, lambda: plant.remote.connected() or plant.remote.fault() is not None)
    assert text in str(plant.remote.fault())
    plant.close()


def test_inputs_that_32_bits_cannot_hold_are_a_fault_and_are_not_sent(closed_loop: ClosedLoop, port: int) -> None:
    transport = Remembering(port)
    plant = asking(closed_loop, transport)
    until(plant, plant.remote.connected)
    sent = len(transport.sent)
    plant.write(np.array([1e300, 0.0]))
    assert len(transport.sent) == sent
    until(plant, plant.remote.arrived)
    plant.advance(1)
    assert "does not fit into a packet" in str(plant.remote.fault())
    plant.close()


def test_firmware_of_another_packet_version_is_a_fault_that_names_both(closed_loop: ClosedLoop) -> None:
    class Newer(UdpTransport):
        def receive(self, bound: int) -> list[bytes]:  # noqa: ARG002
            good = packets.encode(packets.Head(packets.FAULT, 1, 1, 0, 0, 0), machine_packets.fault_payload(1, 1))
            changed = good[:2] + b"\x02" + good[3:-2]
            return [changed + packets.crc_hqx(changed, 0xFFFF).to_bytes(2, "little")]

    plant = asking(closed_loop, Newer("127.0.0.1", free_udp_port()))
    assert not plant.remote.connected()
    fault = plant.remote.fault()
    assert fault is not None
    assert fault[0] == "device"
    assert "it speaks packets of version 2, and servonode of version 1; flash firmware" in fault[1]
    assert plant.counts["refused_version"] > 0
    plant.close()


# what is sent


def test_the_brakes_of_robot_and_sphero_are_found_as_feedbacks_of_the_state(closed_loop: ClosedLoop) -> None:
    machine = closed_loop.machine
    found = safe_map(machine, closed_loop.start)
    assert found is not None
    c_b, half, radius = (machine.parameters[name] for name in ("c_b", "l", "r"))
    np.testing.assert_allclose(found[:, 4:6], c_b / radius * np.array([[-1.0, half], [-1.0, -half]]), rtol=1e-9)
    assert not found[:, [0, 1, 2, 3, 6, 7, 8]].any()
    sphero = servonode.load("sphero_pursuit").closed_loop
    of_sphero = safe_map(sphero.machine, sphero.start)
    assert of_sphero is not None
    x = np.append(sphero.start[:-1] + np.linspace(-0.2, 0.2, sphero.machine.n_state), 0.0)
    expected = sphero.machine.safe_input(0.0, x)
    np.testing.assert_allclose(of_sphero @ [*x[:-1], 1.0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("brake", "affine"),
    [
        (lambda t, x: -0.5 * x[:1] + 0.25, True),  # noqa: ARG005
        (lambda t, x: -x[:1] * abs(x[:1]), False),  # noqa: ARG005
        (lambda t, x: -x[:1] * (1.0 + t), False),
    ],
)
def test_a_safe_action_that_is_no_feedback_is_said_and_zero_is_sent(brake: Callable[..., Any], affine: bool) -> None:
    description = SimpleNamespace(has_safe_action=True, name="cart")
    machine: Any = SimpleNamespace(n_state=2, n_inputs=1, description=description, safe_input=brake)
    found, said = safe_map(machine, np.zeros(3)), safe_remarks(machine, np.zeros(3))
    if affine:
        np.testing.assert_allclose(found, [[-0.5, 0.0, 0.25]], atol=1e-12)
        assert said == []
    else:
        assert found is None
        assert "the safe action of cart is not a linear feedback of its state" in said[0]


def test_readings_that_32_bits_cannot_tell_apart_are_not_frozen(closed_loop: ClosedLoop) -> None:
    terms = context(closed_loop.machine, closed_loop.start, (1.0, 1.0), frozen_time=0.5)
    x = closed_loop.start.copy()
    x[0], x[4] = 2.0, 1e-8  # it moves by 5e-9 m, where 32 bits tell 2.4e-7 m
    state = State(t=1.0, seq=1, run=1, k=1000, mono=0, node="", src=1, state={}, input={}, control=False)
    inputs = np.array([1e-12, 1e-12])
    for resolution, frozen in ((0.0, True), (RESOLUTION, False)):
        judge = Frozen(replace(terms, resolution=resolution))
        complaint = judge.complaint(state, x[:-1].tolist(), 0, x, inputs, 0)
        assert (complaint is not None) == frozen


# errors with their remedies


@contextmanager
def terminal() -> Iterator[tuple[int, str]]:
    """A pseudo-terminal: the machine's end, and the name of ours."""
    theirs, ours = pty.openpty()
    tty.setraw(ours)
    try:
        yield theirs, os.ttyname(ours)
    finally:
        os.close(theirs)
        os.close(ours)


def test_bytes_without_a_packet_ask_for_the_baud_rate(closed_loop: ClosedLoop) -> None:
    with terminal() as (theirs, port):
        link = PacketLink(SerialTransport(port, 9600), closed_loop.machine, closed_loop.start)
        link.open()
        assert f"nothing comes over {port}" in link.hint
        os.write(theirs, bytes(range(1, 200)) + b"\0" + b"\xff\x80\x80\0" * 20)
        time.sleep(0.05)
        assert link.receive() == []
        assert "but no packet among them; is plant.device.baud = 9600 the speed of the firmware?" in link.hint
        assert sum(link.counts.values()) == 21
        link.close()


def test_a_port_that_goes_away_is_lost_and_one_that_is_back_is_opened_again(tmp_path: Path) -> None:
    place = tmp_path / "port"
    with terminal() as (_, port):
        place.symlink_to(port)
        transport = SerialTransport(str(place), 115200)
        transport.open()
    transport.receive(10)
    assert "is gone" in transport.lost
    assert "Plug it in again, then reset and arm" in transport.lost
    assert transport.fds == ()
    with terminal() as (theirs, port):
        place.unlink()
        place.symlink_to(port)
        transport.send(b"lost")
        assert transport.lost == ""
        transport.send(b"packet")
        came = b""
        while came.count(b"\0") < 2:
            came += os.read(theirs, 100)
        assert cobs.unstuffed(came.split(b"\0")[1]) == b"packet"
    transport.close()


@pytest.mark.parametrize("call", [1, 2])
def test_a_port_that_goes_away_while_it_is_opened_again_stays_lost_until_it_is_back(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is emptied twice, by pyserial and by us; where it hangs up meanwhile that is no OSError."""
    place, calls = tmp_path / "port", iter(range(1, 9))
    flush = termios.tcflush

    def hangs_up(fd: int, queue: int) -> None:
        if next(calls) == call:
            raise termios.error(errno.EIO, "Input/output error")
        flush(fd, queue)

    monkeypatch.setattr(serial_transport, "REOPEN_NS", 0)
    transport = SerialTransport(str(place), 115200)
    with terminal() as (_, port):
        place.symlink_to(port)
        transport.open()
    transport.receive(10)
    with terminal() as (_, port):
        place.unlink()
        place.symlink_to(port)
        monkeypatch.setattr(termios, "tcflush", hangs_up)
        transport.send(b"lost")
        assert "cannot be opened at 115200 baud (Input/output error)" in transport.lost
        assert transport.fds == ()
        transport.send(b"packet")
        assert transport.lost == ""
        assert len(transport.fds) == 1
    transport.close()


@pytest.mark.parametrize("flood", [b"\0", b"a\0", b"a"])
def test_what_floods_the_line_is_neither_kept_nor_in_the_way_of_the_newest_packets(flood: bytes) -> None:
    with terminal() as (theirs, port):
        transport = SerialTransport(port, 115200)
        transport.open()
        good = cobs.stuffed(b"packet")
        for _ in range(40):
            os.write(theirs, flood * (1000 // len(flood)) + b"\0" + good * 3)
            time.sleep(0.001)
            assert transport.receive(2) == [b"packet"] * 2
            assert len(transport._into) == 0
        assert transport.counts["unread"] >= 40
        transport.close()


def test_nobody_is_told_to_join_a_group_that_would_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as (_, port):
        Path(port).chmod(0o600)
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert "which is for its owner alone" in port_problem(port)
        assert "usermod" not in port_problem(port)
    assert "there is no serial port a" in port_problem("a\0b")


PLACES = [("--udp", "abc"), ("--udp", "99999"), ("--udp", "127.0.0.1:"), ("--pty", "/dev/null")]
NUMBERS = [(option, word) for option in ("--corrupt", "--delay")
           for word in ("abc", "", "0.5s", "nan", "inf", "-1", "1e30")]  # fmt: skip


@pytest.mark.parametrize("words", PLACES + NUMBERS)
def test_the_host_program_refuses_what_it_cannot_serve(words: tuple[str, str]) -> None:
    place = () if words in PLACES else ("--udp", str(free_udp_port()))
    command = [built("robot"), *place, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    option, word = words
    said = word.rpartition(":")[2] if words in PLACES else f"{option} '{word}': give a number from 0 to "
    assert said in done.stderr
    assert "give" in done.stderr


@pytest.mark.parametrize("words", [(), ("--corrupt", "1e-3", "--delay", "0.5")])
def test_the_host_program_says_at_which_address_it_serves(words: tuple[str, ...]) -> None:
    port = free_udp_port()
    for given, served in ((str(port), f"127.0.0.1:{port}"), (f"127.0.0.2:{port}", f"127.0.0.2:{port}")):
        command = [built("robot"), "--udp", given, *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
            assert popen.stdout is not None
            assert popen.stdout.readline() == f"serving at {served}\n"
            popen.terminate()


def test_a_host_program_that_ends_leaves_the_link_of_its_successor_alone(tmp_path: Path) -> None:
    place = tmp_path / "port"
    with Firmware("robot", "--pty", str(place)) as first, Firmware("robot", "--pty", str(place)) as second:
        first.popen.terminate()
        assert first.popen.wait(WAIT_S) == 0
        assert place.is_char_device()
        second.popen.terminate()
        assert second.popen.wait(WAIT_S) == 0
        assert not place.is_symlink()


def test_a_port_in_use_is_refused() -> None:
    with terminal() as (_, port):
        first, second = SerialTransport(port, 115200), SerialTransport(port, 115200)
        first.open()
        with pytest.raises(BusError, match="stop the program that uses it"):
            second.open()
        first.close()


def test_a_missing_port_a_forbidden_one_and_a_missing_extra_are_told_before_a_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launch = read_launch("trailer_pursuit_serial", [f'plant.device.port="{tmp_path}/none"'])
    with pytest.raises(LaunchError, match=r"\[plant.device\] port: there is no serial port .*none; plug the board in"):
        connection_of(launch).check_free("diff_drive_trailer")
    assert f"{tmp_path} is not a serial port" in port_problem(str(tmp_path))
    with terminal() as (_, port):
        monkeypatch.setattr(os, "access", lambda *_: False)
        dialout = os.stat_result((0o020660, 0, 0, 1, 0, 20, 0, 0, 0, 0))
        monkeypatch.setattr(Path, "stat", lambda *_, **__: dialout)
        assert "sudo usermod -aG" in port_problem(port)
        monkeypatch.undo()
        monkeypatch.setitem(sys.modules, "serial", None)
        with pytest.raises(BusError, match=r'pip install "servonode\[hil\]"'):
            SerialTransport(port, 9600).open()
        assert serial_transport.ports() == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"plant.driver": "serial"}, r"\[plant.device\] port: missing; name the board's serial port"),
        ({"plant.driver": "udp"}, r"\[plant.device\] address: missing; give the board's address and port"),
        ({"plant.device.address": "robot.local:9"}, "is not an address; give a numeric address and a port"),
        ({"plant.device.address": "::1:9875"}, r"or \[::1\]:9875"),
        ({"plant.device.address": "127.0.0.1:0"}, "is not an address"),
        ({"plant.device.address": "127.0.0.1:\u0663"}, "is not an address"),
        ({"plant.device.address": "0.0.0.0:9875"}, "is not the address of one machine"),
        ({"plant.device.address": "255.255.255.255:9875"}, "is not the address of one machine"),
        ({"plant.device.address": "192.168.4.1:9875"}, r"packets have no keys: .* plant.device.open_network = true"),
        ({"run.speed": 2.0}, "plant.device.any_speed = true"),
    ],
)
def test_what_a_driver_cannot_take_is_refused_with_the_remedy(given: dict[str, Any], text: str) -> None:
    overrides = [f"{key}={value if isinstance(value, float) else repr(value)}" for key, value in given.items()]
    launch = "trailer_pursuit_external" if "plant.driver" in given else LAUNCH
    with pytest.raises(LaunchError, match=text):
        resolve(read_launch(launch, overrides), strict=False)


def test_a_network_that_others_reach_is_warned_of(closed_loop: ClosedLoop) -> None:
    said = ["plant.device.address='192.168.4.1:9875'", "plant.device.open_network=true"]
    wide = resolve(read_launch(LAUNCH, said), strict=False)
    for loop, who in ((closed_loop, "any user of this computer"), (wide, "every computer of that network")):
        assert any(f"{who} can send packets to" in each for each in loop.connection.remarks(loop.machine, loop.start))


def test_datagrams_of_a_stranger_are_counted_and_not_read(closed_loop: ClosedLoop) -> None:
    import socket

    port = free_udp_port()
    transport = UdpTransport("127.0.0.1", port)
    transport.open()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as machine,
    ):
        machine.bind(("127.0.0.1", port))
        transport.send(b"hello")
        _, host = machine.recvfrom(100)
        assert host[0] == "127.0.0.1"
        stranger.sendto(b"lie", host)
        machine.sendto(b"truth", host)
        time.sleep(0.05)
        assert transport.receive(10) == [b"truth"]
        assert transport.counts["peer"] == 1
    transport.close()
