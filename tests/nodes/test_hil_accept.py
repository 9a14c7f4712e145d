"""`servonode hil accept` against the firmware, and against the firmware with each flaw that it is to name."""

import json
import struct
from binascii import crc_hqx
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from click.testing import CliRunner

from servonode.acceptance.hil_accept import ABSURD_S, AcceptReport, FirmwareCheck, accept_over
from servonode.acceptance.protocol_check import Plan
from servonode.cli.main import main
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.plants.drivers import packets
from servonode.plants.drivers.packets import APPLIED, FINAL, LAW, NONE, SAFE, SETUP, STATE, Head
from servonode.plants.drivers.udp_transport import UdpTransport
from tests.helpers import machine_packets
from tests.helpers.firmware import ESTIMATED, Firmware, free_udp_port
from tests.helpers.timed_board import Board, Time, TimedWire

LAUNCH = "trailer_pursuit_udp"
PLAN = Plan(wait=2.0, observe=0.4, settle=0.25)
FLAWS = {  # what is wrong with the firmware: what must be found
    "never times out": "timeout",
    "coasts after the timeout": "safe action",
    "does not say that it brakes": "safe action",
    "releases its brake for a new run": "safe action",
    "keeps no limits": "limits",
    "reads no CRC": "corrupt packet",
    "reads no version": "other version",
    "takes any run": "foreign run",
    "takes any host": "foreign host",
    "clamps what is not finite": "nan",
    "believes any timeout": "own timeout",
    "goes on after the end": "final",
    "takes any setup": "setup",
}


def sealed(data: bytes) -> bytes:
    return data[:-2] + struct.pack("<H", crc_hqx(data[:-2], 0xFFFF))


class Flawed(Board):
    """Good firmware on paper, whose packets are changed so that it seems to have a flaw."""

    def __init__(self, time: Time, parameters: dict[str, float], flaw: str) -> None:
        super().__init__(time, parameters)
        self.flaw = flaw
        self.asked: tuple[float, ...] = (0.0, 0.0)  # by the newest applied
        self.setup = b""

    def send(self, packet: bytes) -> None:
        data = packet
        if self.flaw == "reads no CRC":
            data = sealed(data)
        if self.flaw == "reads no version":
            data = sealed(data[:2] + b"\x01" + data[3:])
        if (
            self.flaw == "clamps what is not finite"
            and data[3] == APPLIED
            and data[42:44] in (b"\xc0\x7f", b"\x80\x7f")
        ):
            data = sealed(data[:40] + struct.pack("<f", 1e-6) + data[44:])
        try:
            head, payload = packets.decode(data)
        except packets.PacketError:
            return super().send(data)
        if head.type == SETUP:
            if self.flaw == "takes any setup" and machine_packets.read_setup(payload).timeout < 0:
                data = sealed(data[:56] + struct.pack("<q", 10**8) + data[64:])
            self.setup = data
        elif head.type == APPLIED:
            if self.flaw == "takes any run":
                data = sealed(data[:4] + self.setup[4:8] + data[8:])
            if self.flaw == "takes any host":
                data = sealed(data[:8] + self.setup[8:12] + data[12:])
            if self.flaw == "goes on after the end" and head.flags & FINAL:
                return None
            with suppress(packets.PacketError):
                self.asked = machine_packets.read_applied(payload, 2)[1]
        return super().send(data)

    def receive(self, bound: int) -> list[bytes]:
        return [self.changed(*packets.decode(data)) for data in super().receive(bound)]

    def changed(self, head: Head, payload: bytes) -> bytes:
        """A state as the flawed firmware would send it."""
        if head.type != STATE:
            return packets.encode(head, payload)
        content = packets.read_state(payload, 8, 2)
        safe = bool(head.flags & SAFE)
        absurd = (
            bool(self.setup) and machine_packets.read_setup(packets.decode(self.setup)[1]).timeout == ABSURD_S * 1e9
        )
        if (self.flaw == "never times out" and safe) or (self.flaw == "believes any timeout" and safe and absurd):
            content = content._replace(inputs=self.asked)
        if self.flaw == "coasts after the timeout" and safe:
            content = content._replace(inputs=(0.0, 0.0))
        if self.flaw == "keeps no limits" and not safe and any(content.inputs):
            content = content._replace(inputs=self.asked)
        released = self.flaw == "releases its brake for a new run" and safe and head.reply == NONE
        if released:
            content = content._replace(inputs=(0.0, 0.0))
        if released or self.flaw == "does not say that it brakes":
            head = head._replace(flags=head.flags & ~SAFE)
        return packets.encode(head, machine_packets.state_payload(content))


def judged(closed_loop: ClosedLoop, flaw: str) -> AcceptReport:
    """The verdict about firmware with this flaw."""
    time = Time()
    board = Flawed(time, dict(closed_loop.machine.parameters), flaw)
    return accept_over(board, closed_loop, PLAN, lambda link: TimedWire(link, board, time), time.clock)


@pytest.fixture(scope="module")
def closed_loop() -> ClosedLoop:
    return resolve(read_launch(LAUNCH), strict=False)


@pytest.fixture(scope="module")
def robot() -> Iterator[str]:
    """The address of good firmware."""
    port = free_udp_port()
    with Firmware("robot", "--udp", str(port)):
        yield f"127.0.0.1:{port}"


def servo(*words: str) -> Any:
    return CliRunner().invoke(main, ["hil", *words])


def test_good_firmware_with_a_law_is_accepted_and_what_was_proven_is_said(robot: str) -> None:
    said = [f"plant.device.address={robot}", "plant.device.law=true"]
    result = servo("accept", LAUNCH, *(word for each in said for word in ("--set", each)), "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert (printed["verdict"], printed["machine"], printed["place"]) == ("yes", "diff_drive_trailer", robot)
    assert (printed["findings"], printed["undecided"]) == ([], [])
    assert {each["subject"] for each in printed["notes"]} <= {"motion"}  # Y does not move along x
    assert [each["subject"] for each in printed["proven"]] == [
        "states", "timeout", "safe action", "limits", "corrupt packet", "other version", "short packet", "foreign run",
        "foreign host", "nan", "infinity", "stranger", "law", "own timeout", "again", "final", "setup",
    ]  # fmt: skip
    counted = next(each["text"] for each in printed["proven"] if each["subject"] == "nan")
    assert counted == "5 sent, none acted, 5 counted as refused"


def test_a_law_that_acts_though_no_packet_has_a_goal_is_found(robot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = resolve(read_launch(LAUNCH, ["plant.device.law=true"]), strict=False)

    class Unasked(UdpTransport):
        """Firmware whose law acts in every packet."""

        def receive(self, bound: int) -> list[bytes]:
            found = [packets.decode(data) for data in super().receive(bound)]
            return [packets.encode(h._replace(flags=h.flags | LAW * (h.type == STATE)), p) for h, p in found]

    monkeypatch.setattr(FirmwareCheck, "parts", property(lambda check: (check.try_law,)))
    report = accept_over(Unasked("127.0.0.1", int(robot.rpartition(":")[2])), loop, PLAN)
    assert [each.text.partition(";")[0] for each in report.findings] == ["acts though no packet had a goal"]
    assert report.proven == []


@pytest.mark.slow
def test_firmware_that_sends_readings_alone_is_accepted_for_what_it_does() -> None:
    port = free_udp_port()
    settings = [f'plant.device.address="127.0.0.1:{port}"', *ESTIMATED]
    loop = resolve(read_launch(LAUNCH, settings), strict=False)
    with Firmware("robot", "--udp", str(port), "--readings"):
        report = accept_over(UdpTransport("127.0.0.1", port), loop, PLAN)
    assert report.findings == []
    assert {"states", "timeout", "limits", "corrupt packet", "nan", "own timeout", "final"} <= {
        each.subject for each in report.proven
    }
    assert "encoder_left 4" in report.notes[0].text


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_is_found_by_its_name_with_a_remedy(closed_loop: ClosedLoop, flaw: str) -> None:
    report = judged(closed_loop, flaw)
    found = {each.subject: each.text for each in report.findings}
    assert FLAWS[flaw] in found, report.text()
    assert ";" in found[FLAWS[flaw]]
    assert FLAWS[flaw] not in {each.subject for each in report.proven}
    assert report.text().endswith("no: do not arm it")


def test_firmware_of_another_machine_is_named_with_both_schemas(robot: str) -> None:
    result = servo("accept", "sphero_pursuit", "--set", "plant.driver=udp", "--set", "run.speed=1", "--set",
                   f"plant.device.address={robot}")  # fmt: skip
    assert result.exit_code == 1, result.output
    assert "it is the firmware of another machine" in result.stdout
    assert "its schema is 0xa45cdb44, this machine's is 0x79e56ca8" in result.stdout


def test_nobody_there_and_a_driver_without_packets_are_one_line_with_the_remedy() -> None:
    address = f"127.0.0.1:{free_udp_port()}"
    result = servo("accept", LAUNCH, "--set", f"plant.device.address={address}", "--wait", "0.3")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "nobody listens at 127.0.0.1 port" in result.stderr
    result = servo("accept", "trailer_pursuit_external")
    assert result.exit_code == 2
    assert '"external" does not reach firmware; take "serial" or "udp"' in result.stderr


def test_the_header_of_a_machine_names_its_states_and_its_schema() -> None:
    result = servo("header", "trailer_pursuit")
    assert result.exit_code == 0
    assert "#define HIL_SCHEMA UINT32_C(0xa45cdb44)" in result.stdout
    assert "     4  V  m/s  forward speed of O1" in result.stdout


def test_sensors_are_printed_as_c_and_numbered_as_in_the_header() -> None:
    header = CliRunner().invoke(main, ["hil", "header", LAUNCH])
    sensors = CliRunner().invoke(main, ["hil", "sensors", LAUNCH])
    assert (header.exit_code, sensors.exit_code) == (0, 0), (header.output, sensors.output)
    assert "#define HIL_READINGS_SCHEMA UINT32_C(0x7293bf2d)" in header.stdout
    assert "#define HIL_N_SENSORS 8" in header.stdout
    assert " *      2  gyroscope  rad/s  yaw rate of the robot\n" in header.stdout
    assert "void trailer_pursuit_udp_measure(double t, const double *x, const double *u, double *z)" in sensors.stdout
    nothing = CliRunner().invoke(main, ["hil", "sensors", "hoop_decay"])
    assert nothing.stdout.startswith("/* hoop_on_profile has no simulated sensors: it defines none")
