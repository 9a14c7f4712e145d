"""Firmware of the robot over its wires: ours to rounding, what it refuses, every error of a wire with its remedy."""

import os
import pty
import select
import socket
import sys
import termios
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
from servonode.plants.drivers import packets
from servonode.plants.drivers.packet_link import RESOLUTION, RUNS, PacketLink
from servonode.plants.drivers.readings import Frozen
from servonode.plants.drivers.safe_map import safe_map, safe_remarks
from servonode.plants.drivers.serial import SerialTransport, port_problem, ports, stuffed
from servonode.plants.drivers.transport import REOPEN_NS
from servonode.plants.drivers.udp import UdpTransport
from tests.helpers import machine_packets
from tests.helpers.firmware import free_udp_port
from tests.helpers.plants import context
from tests.helpers.wired import Events, host_of, hosted
from tests.wires import MS, Port, SerialWire, loop_of, wire

LAUNCH = "trailer_pursuit_udp"
ROUNDING = 2.0**-24  # of a number of 32 bits, relative
LONGEST_S = 60.0


@pytest.fixture(scope="module")
def closed_loop() -> ClosedLoop:
    return loop_of("udp")


# against ours


@pytest.mark.parametrize("kind", ["serial", "udp"])
def test_in_lockstep_the_robot_moves_as_ours_to_rounding(kind: str) -> None:
    with hosted(kind, "run.mode=lockstep") as host:
        plant, own = host.plant, host.loop.plant()
        largest, rng = np.abs(own.x[:-1]), np.random.default_rng(1)
        for _ in range(200):
            inputs = rng.uniform(-0.1, 0.3, 2)
            own.write(inputs.astype(np.float32).astype(float))
            plant.write(inputs)
            own.advance(10)
            host.step()
            largest = np.maximum(largest, np.abs(own.x[:-1]))
            assert plant.k == own.k
            assert np.all(np.abs(plant.x[:-1] - own.x[:-1]) <= ROUNDING * largest + 1e-30)
        assert largest[0] > 0.1
        assert host.remote.fault() is None


# handshakes


def test_a_setup_that_was_long_under_way_does_not_begin_a_run_of_before_again() -> None:
    with hosted("udp") as host:
        host.begin()
        for _ in range(3):
            host.wire.send(host.wire.sent[0][1])
        host.until(lambda: host.remote.arrived() and host.plant.extra["machine_refused"] == 3.0)
        assert not host.plant.counts
        for _ in range(8):
            host.begin()
        assert len(host.remote.link._link._runs) == RUNS


def other_setup(**changes: Any) -> Callable[[bytes], bytes]:
    """What becomes of a setup on its way, with these changes."""

    def changed(data: bytes) -> bytes:
        head, payload = packets.decode(data)
        if head.type != packets.SETUP:
            return data
        content = machine_packets.read_setup(payload, head.flags)._replace(**changes)
        return packets.encode(head, packets.setup_payload(content))

    return changed


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"step": 2_000_000}, "its step is 1000000 ns; set plant.step to that"),
        ({"speed": 2.0}, "it runs only at speed 1; set run.speed = 1"),
        ({"timeout": -1}, "the timeout is not positive"),
        ({"limits": [-1.0, 0.4]}, "a limit is negative"),
    ],
)
def test_a_run_that_the_robot_cannot_take_part_in_is_refused_by_reason(changes: dict[str, Any], text: str) -> None:
    with hosted("udp", to={"spoils": other_setup(**changes)}) as host:
        assert text in str(host.remote.fault())


def test_inputs_that_32_bits_cannot_hold_are_a_fault_and_are_not_sent() -> None:
    with hosted("udp") as host:
        sent = len(host.wire.sent)
        host.plant.write(np.array([1e300, 0.0]))
        assert len(host.wire.sent) == sent
        host.plant.advance(1)
        assert "does not fit into a packet" in str(host.remote.fault())


def newer(data: bytes) -> bytes:
    """The same packet of another version."""
    changed = data[:2] + b"\x02" + data[3:-2]
    return changed + packets.crc_hqx(changed, 0xFFFF).to_bytes(2, "little")


def test_firmware_of_another_packet_version_is_a_fault_that_names_both() -> None:
    with hosted("udp", back={"spoils": newer}) as host:
        name, text = host.remote.fault()
        assert name == "device"
        assert "it speaks packets of version 2, and servonode of version 1; flash firmware" in text
        assert host.plant.counts["refused_version"] > 0


@pytest.mark.parametrize(
    ("kind", "settings", "text"),
    [
        ("sensors_only", "serial", 'its firmware sends readings of its sensors alone; give plant.device.sends = "read'),
        ("serial", "sensors_only", "its firmware sends its state; leave plant.device.sends out"),
    ],
)
def test_the_other_firmware_of_the_same_machine_is_named(kind: str, settings: str, text: str) -> None:
    with host_of(wire(kind, Events()), loop_of(settings)) as host:
        assert text in str(host.remote.fault())


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
def port(baud: int = 115200) -> Iterator[tuple[SerialWire, SerialTransport]]:
    """A serial port in memory and its transport, open."""
    made: Any = wire("115200 baud", Events())
    with made.plugged():
        transport = SerialTransport("/dev/memory", baud)
        transport.open()
        try:
            yield made, transport
        finally:
            transport.close()


@contextmanager
def terminal() -> Iterator[str]:
    """The name of a pseudo-terminal."""
    theirs, ours = pty.openpty()
    tty.setraw(ours)
    try:
        yield os.ttyname(ours)
    finally:
        os.close(theirs)
        os.close(ours)


def test_bytes_without_a_packet_ask_for_the_baud_rate(closed_loop: ClosedLoop) -> None:
    with port(9600) as (made, transport):
        link = PacketLink(transport, context(closed_loop.machine, closed_loop.start))
        assert "nothing comes over /dev/memory" in link.hint
        made.deliver(bytes(range(1, 200)) + b"\0" + b"\xff\x80\x80\0" * 20)
        assert link.receive() == []
        assert "but no packet among them; is plant.device.baud = 9600 the speed of the firmware?" in link.hint
        assert sum(link.counts.values()) == 21


def test_a_port_that_goes_away_is_lost_and_one_that_is_back_is_opened_again() -> None:
    with port() as (made, transport):
        made.pull()
        transport.receive(10)
        assert "is gone" in transport.lost
        assert "Plug it in again, then reset and arm" in transport.lost
        assert transport.fds == ()
        made.plug()
        made.sent.clear()
        transport.send(b"lost")
        assert (transport.lost, made.sent) == ("", [])
        transport.send(b"packet")
        made.queue.go(MS)  # until the line is free
        for _ in range(2):
            transport.receive(10)
        assert b"".join(data for _, data in made.sent) == b"\0" + stuffed(b"packet")


@pytest.mark.parametrize("call", ["__init__", "reset_input_buffer"])
def test_a_port_that_goes_away_while_it_is_opened_again_stays_lost_until_it_is_back(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is emptied twice, by pyserial and by us; where it hangs up meanwhile that is no OSError."""

    def hangs_up(*_: object, **__: object) -> None:
        raise termios.error(5, "Input/output error")

    with port() as (made, transport):
        made.pull()
        transport.receive(10)
        made.plug()
        with monkeypatch.context() as patch:
            patch.setattr(Port, call, hangs_up)
            transport.send(b"lost")
        assert "cannot be opened at 115200 baud (Input/output error)" in transport.lost
        assert transport.fds == ()
        transport.send(b"packet")  # too soon for another attempt
        assert transport.fds == ()
        made.queue.now += REOPEN_NS
        transport.send(b"packet")
        assert transport.lost == ""
        assert len(transport.fds) == 1


@pytest.mark.parametrize("flood", [b"\0", b"a\0", b"a"])
def test_what_floods_the_line_is_neither_kept_nor_in_the_way_of_the_newest_packets(flood: bytes) -> None:
    good = stuffed(b"packet")
    with port() as (made, transport):
        for _ in range(40):
            made.deliver(flood * (1000 // len(flood)) + b"\0" + good * 3)
            assert transport.receive(2) == [b"packet"] * 2
            assert len(transport._into) == 0
        assert transport.counts["unread"] >= 40


def test_nobody_is_told_to_join_a_group_that_would_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as place:
        Path(place).chmod(0o600)
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert "which is for its owner alone" in port_problem(place)
        assert "usermod" not in port_problem(place)
    assert "there is no serial port a" in port_problem("a\0b")


def test_a_port_in_use_is_refused() -> None:
    with terminal() as place:
        first, second = SerialTransport(place, 115200), SerialTransport(place, 115200)
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
    with terminal() as place:
        monkeypatch.setattr(os, "access", lambda *_: False)
        dialout = os.stat_result((0o020660, 0, 0, 1, 0, 20, 0, 0, 0, 0))
        monkeypatch.setattr(Path, "stat", lambda *_, **__: dialout)
        assert "sudo usermod -aG" in port_problem(place)
        monkeypatch.undo()
        monkeypatch.setitem(sys.modules, "serial", None)
        with pytest.raises(BusError, match=r'pip install "servonode\[hil\]"'):
            SerialTransport(port, 9600).open()
        assert ports() == []


def test_a_network_that_others_reach_is_warned_of(closed_loop: ClosedLoop) -> None:
    said = ["plant.device.address='192.168.4.1:9875'", "plant.device.open_network=true"]
    wide = resolve(read_launch(LAUNCH, said), strict=False)
    for loop, who in ((closed_loop, "any user of this computer"), (wide, "every computer of that network")):
        assert any(f"{who} can send packets to" in each for each in loop.connection.remarks(loop.machine, loop.start))


def test_datagrams_of_a_stranger_are_counted_and_not_read() -> None:
    transport = UdpTransport("127.0.0.1", free_udp_port())
    transport.open()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as machine,
    ):
        machine.bind(transport._peer)
        transport.send(b"hello")
        _, host = machine.recvfrom(100)
        assert host[0] == "127.0.0.1"
        stranger.sendto(b"lie", host)
        machine.sendto(b"truth", host)
        came: list[bytes] = []
        while not came:
            assert select.select(transport.fds, [], [], LONGEST_S)[0]
            came += transport.receive(10)
        assert came == [b"truth"]
        assert transport.counts["peer"] == 1
    transport.close()
