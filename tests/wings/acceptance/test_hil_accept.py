"""`servonode hil accept` against the firmware, and against the firmware with each flaw that it is to name."""

from typing import Any

import pytest
from click.testing import CliRunner

from servonode.cli.main import main
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.plants.drivers import packets
from servonode.plants.drivers.packets import LAW, STATE
from servonode.wings.acceptance.hil_accept import FirmwareCheck, accept_over
from servonode.wings.acceptance.protocol_check import AGAIN, Plan, Report
from servonode.wings.acceptance.trials import UNSEEN, UNUSABLE
from tests.helpers.firmware import ESTIMATED, free_udp_port
from tests.helpers.mutated_firmware import MutatedFirmware
from tests.helpers.timed_board import Time, waiting

LAUNCH = "trailer_pursuit_udp"
PLAN = Plan(wait=2.0, observe=0.4, settle=0.25)
IF_OLDER = "    if (device->taken != PACKET_NONE && packet->seq < device->taken)\n        return 0;\n"
IF_SAME = "if (packet->seq == device->taken)"
IF_LATE = "at - device->fresh_ns >= device->timeout_ns"
IF_STRANGE = "packet->run != device->run || packet->source != device->host)\n        return 0;\n    if (("
STRANGE_RUN = IF_STRANGE.replace("packet->run != device->run || ", "")
STRANGE_HOST = IF_STRANGE.replace(" || packet->source != device->host", "")
CLAMP = "u[i] = clamped(isfinite(u[i]) ? u[i] : 0.0f, -most, most);"
ECHO = "    head.reply = device->taken;"
IF_WHOLE = "out->length != size - PACKET_HEADER - PACKET_CRC"
IF_APPLIED = "if (packet.type == PACKET_APPLIED)"
IF_LAW = "    out->law = (packet->flags & PACKET_LAW) != 0;\n    const unsigned size"
IF_INPUTS = f"    if (packet->type != PACKET_APPLIED)\n        return PACKET_BAD_TYPE;\n{IF_LAW}"
FLAWS: dict[str, tuple[str, dict[str, str]]] = {  # of the firmware: what is found, and what is changed
    "never times out": ("timeout", {IF_LATE: "0"}),
    "times out 40 ms late": ("timeout", {IF_LATE: f"{IF_LATE} + 40000000"}),
    "brakes at once": ("timeout", {IF_LATE: "at - device->fresh_ns >= 9000000"}),
    "has no timeout before its first input": (
        "safe action", {"running && device->driven && at": "running && device->taken != PACKET_NONE && at"},
    ),
    "brakes without a clamp": ("safe action", {CLAMP: "u[i] = u[i]; (void)most;"}),
    "brakes by a constant": ("safe action", {"u[i] += row[j] * device->x[j];": "u[i] += 0.0f;"}),
    "brakes the other way": ("safe action", {"u[i] += row[j]": "u[i] -= row[j]"}),
    "does not say that it brakes": ("safe action", {"head.flags = device->safe ? PACKET_SAFE : 0;": "head.flags = 0;"}),
    "releases its brake for a new run": ("safe action", {"= brakes && !lockstep && !put;": "= 0;"}),
    "widens its brake for a new run": ("safe action", {"before < most ? before": "before < 0.0f ? before"}),
    "does not brake when told": ("brake", {"if (packet->flags & PACKET_BRAKE) {": "if (0) {"}),
    "does not brake after the end": ("final", {"device->braking = !device->lockstep && device->driven;": ""}),
    "keeps no limits": ("limits", {"    device->setup = *setup;": (
        "    device->setup = *setup;\n    device->setup.limits[0] = device->setup.limits[1] = 9;"
    )}),
    "takes any run": ("foreign run", {IF_STRANGE: STRANGE_RUN}),
    "takes any host": ("foreign host", {IF_STRANGE: STRANGE_HOST}),
    "takes older inputs": ("older seq", {IF_OLDER: ""}),
    "takes the same number again": ("same seq", {IF_SAME: "if (0)"}),
    "takes answers to old states": ("old state", {"&& !is_recent(device, packet->reply)": "&& 0"}),
    "echoes one packet late": ("echo", {ECHO: (
        "    static uint32_t last, now;\n    last = now == device->taken ? last : now;\n    now = device->taken;\n"
        "    head.reply = device->taken == PACKET_NONE ? PACKET_NONE : last;"
    )}),
    "acts one packet late": ("echo", {"    device->asked = *applied;": (
        "    static struct applied before;\n    device->asked = before;\n    before = *applied;"
    )}),
    "believes any timeout": ("own timeout", {"machine->longest_timeout_ns < setup->timeout_ns": "0"}),
    "goes on after the end": ("final", {"if (packet->flags & PACKET_FINAL) {": "if (0) {"}),
    "takes a second host": ("stranger", {"device_has_host(device, now) && packet->source != device->host": "0"}),
    "keeps a dead host": ("next host", {"device_has_host(device, now) && packet": "device->running && packet"}),
    "takes late setups": ("late setup", {" && packet->seq <= device->setup_seq": " && 0"}),
    "begins with the input of before": ("again", {"    if (!device->safe)\n        act_zero(device);": ""}),
    "numbers steps from zero": ("again", {"device->first = packet->step;": "device->first = 0;"}),
    "takes any setup": ("setup", {"if (setup->timeout_ns <= 0)": "if (0)"}),
    "refuses setups in silence": (
        "setup", {"device->send(device->to, bytes, packet_write_fault(": "(void)(packet_write_fault("},
    ),
    "counts nothing": ("nan", {"device->refused += !taken;": ""}),
    "steps in lockstep at any k": ("lockstep", {"packet->step == k && until > k": "until > k"}),
    "leaps in lockstep": ("lockstep", {"until - k <= LEAP && ": ""}),
    "reads no CRC": ("corrupt packet", {"get(bytes + size - PACKET_CRC, 2) != packet_crc(": "0 && packet_crc("}),
    "reads no magic number": ("other magic", {"get(bytes, 2) != PACKET_MAGIC": "0"}),
    "reads no version": ("other version", {"out->version != PACKET_VERSION": "0"}),
    "reads no type": ("other type", {IF_APPLIED: "if (packet.type != PACKET_FAULT)", IF_INPUTS: IF_LAW}),
    "reads no step": ("late step", {" || out->step > PACKET_LAST_STEP": ""}),
    "reads no flags": ("unknown flag", {"out->flags > most_flags[out->type]": "0"}),
    "takes short packets": ("short packet", {IF_WHOLE: "0", "packet->length != size + (": "0 && (size + "}),
    "takes long packets": ("long packet", {IF_WHOLE: "out->length > size - PACKET_HEADER - PACKET_CRC"}),
    "takes what is not a number": ("nan", {"!isfinite(out[i])": "isinf(out[i])"}),
    "clamps what is infinite": ("infinity", {"!isfinite(out[i])": "isnan(out[i])"}),
    "clamps what is not finite": ("nan", {"!isfinite(out[i])": "0"}),
    "falls silent": ("silent", {"    if (!machine->read && !sense": (
        "    static int sent;\n    if (++sent > 100)\n        return;\n    if (!machine->read && !sense"
    )}),
}  # fmt: skip


def judged(
    closed_loop: ClosedLoop, mutations: dict[str, str], kind: type[MutatedFirmware] = MutatedFirmware, **options: bool
) -> Report:
    """The verdict about firmware with these mutations."""
    time = Time()
    board = kind(time, mutations, **options)
    report = accept_over(board, closed_loop, PLAN, waiting(board, time), time.clock)
    assert time.now < 61e9  # it begins at 1 s: within a minute
    return report


@pytest.fixture(scope="module")
def closed_loop() -> ClosedLoop:
    return resolve(read_launch(LAUNCH), strict=False)


@pytest.fixture(scope="module")
def with_law() -> ClosedLoop:
    return resolve(read_launch(LAUNCH, ["plant.device.law=true"]), strict=False)


def servo(*words: str) -> Any:
    return CliRunner().invoke(main, ["hil", *words])


def test_good_firmware_with_a_law_is_accepted_and_what_was_proven_is_said(with_law: ClosedLoop) -> None:
    report = judged(with_law, {}, law=True)
    assert (report.verdict, report.machine) == ("yes", "diff_drive_trailer")
    assert (report.findings, report.undecided) == ([], [])
    assert {each.subject for each in report.notes} <= {"motion"}  # Y does not move along x
    assert [each.subject for each in report.proven] == [
        "states", "timeout", "safe action", "brake", "limits", "foreign run", "foreign host", "older seq", "same seq",
        "old state", "nan", "infinity", "corrupt packet", "other magic", "other version", "other type", "late step",
        "unknown flag", "short packet", "long packet", "stranger", "late setup", "echo", "law", "own timeout", "again",
        "final", "next host", *UNUSABLE,
    ]  # fmt: skip
    counted = next(each.text for each in report.proven if each.subject == "nan")
    assert counted == "5 sent, none acted, 5 counted as refused"


class Unasked(MutatedFirmware):
    """Firmware whose law acts in every packet."""

    def receive(self, bound: int) -> list[bytes]:
        found = [packets.decode(data) for data in super().receive(bound)]
        return [packets.encode(h._replace(flags=h.flags | LAW * (h.type == STATE)), p) for h, p in found]


def test_a_law_that_acts_though_no_packet_has_a_goal_is_found(
    with_law: ClosedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FirmwareCheck, "parts", property(lambda check: (check.try_law,)))
    report = judged(with_law, {}, Unasked, law=True)
    assert [each.text.partition(";")[0] for each in report.findings] == ["acts though no packet had a goal"]
    assert report.proven == []


def test_firmware_that_sends_readings_alone_is_accepted_for_what_it_does() -> None:
    report = judged(resolve(read_launch(LAUNCH, list(ESTIMATED)), strict=False), {}, readings=True)
    assert report.findings == []
    assert {"states", "timeout", "limits", "corrupt packet", "nan", "own timeout", "final"} <= {
        each.subject for each in report.proven
    }
    assert "encoder_left 4" in report.notes[0].text


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_is_found_by_its_name_with_a_remedy(closed_loop: ClosedLoop, flaw: str) -> None:
    subject, mutations = FLAWS[flaw]
    report = judged(closed_loop, mutations)
    found = {each.subject: each.text for each in (*report.findings, *report.undecided)}
    assert subject in found, report.text()
    assert ";" in found[subject] or "did they arrive?" in found[subject]
    assert subject not in {each.subject for each in report.proven}
    assert report.text().endswith("do not arm it" if report.findings else AGAIN)


def test_the_firmware_itself_is_accepted_and_what_no_packet_shows_is_said(closed_loop: ClosedLoop) -> None:
    report = judged(closed_loop, {})
    assert (report.verdict, report.findings, report.undecided) == ("yes", [], []), report.text()
    assert UNSEEN in report.text()
    written = {"device->machine->write(device->machine->self, device->u);\n}\n\n/* The safe": "}\n\n/* The safe"}
    assert judged(closed_loop, written).verdict == "yes"  # motors that get nothing are not seen


def test_firmware_of_another_machine_is_named_with_both_schemas() -> None:
    words = ["plant.driver=udp", "run.speed=1", 'plant.device.address="127.0.0.1:9875"']
    report = judged(resolve(read_launch("sphero_pursuit", words), strict=False), {})
    assert report.verdict == "no"
    assert "it is the firmware of another machine" in report.text()
    assert "its schema is 0xa45cdb44, this machine's is 0x79e56ca8" in report.text()


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
