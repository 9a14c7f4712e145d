"""The C firmware of a launch file's robot as a library in this process: its time is an argument of every call."""

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from click.testing import CliRunner

import servonode
from servonode.cli.main import main
from servonode.export.c_firmware import machine_header, sensor_models
from tests.helpers.firmware import SOURCES, needs_commands

LAUNCH = "trailer_pursuit"
PORTABLE = ("packet.c", "device.c", "line.c", "can.c", "host/simulated.c", "host/sensors.c", "boards/common/serial.c")
NEVER = 2**63 - 1
TEXTS = {"header": machine_header, "sensors": sensor_models}  # as `servonode hil` prints them
GLUE = r"""
#include <string.h>
#include "device.h"
#include "can.h"
#include "boards/common/serial.h"
#include "host/simulated.h"
#include MACHINE_HEADER
static struct device device;
static struct machine machine;
static struct serial serial;
static struct can_out out;
static struct can_in in;
static uint64_t step;
static double truth[HIL_N_STATES], acting[HIL_N_INPUTS];
static void observe(uint64_t k, const double *x, const double *u)
{
    sensors_read(x, u, k == 0);
    step = k;
    memcpy(truth, x, sizeof truth);
    memcpy(acting, u, sizeof acting);
}
int board_begin(uint32_t source, int any_speed, int law, int readings, void (*send)(void *, const uint8_t *, size_t))
{
    simulated_observer = observe;
    machine = simulated_machine(any_speed, law);
    if (readings && !simulated_sensors(&machine))
        return 0;
    device_init(&device, &machine, source, send, 0);
    return 1;
}
int64_t board_due(void) { return device_due(&device); }
void board_advance(int64_t now) { device_advance_to(&device, now); }
int board_receive(int64_t now, const uint8_t *bytes, size_t size) { return device_receive(&device, now, bytes, size); }
void board_bytes(int64_t now, const uint8_t *bytes, size_t size)
{
    static uint8_t packet[PACKET_SIZE];
    for (size_t i = 0; i < size; i++) {
        serial_keep(&serial, bytes[i]);
        for (size_t n; (n = serial_take(&serial, packet)) > 0;)
            device_receive(&device, now, packet, n);
    }
}
void board_frame(int64_t now, const uint8_t *frame, size_t size)
{
    if ((size = can_take(&in, frame, size)) > 0)
        device_receive(&device, now, in.packet, size);
}
void board_put(const uint8_t *packet, size_t size) { line_put(&serial.line, packet, size); }
size_t board_next_bytes(uint8_t *bytes) { return line_next(&serial.line, bytes); }
size_t board_next_frame(uint8_t *frame) { return can_next(&out, &serial.line, frame); }
uint64_t board_truth(double *x, double *u)
{
    memcpy(x, truth, sizeof truth);
    memcpy(u, acting, sizeof acting);
    return step;
}
"""
SEND = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), ctypes.c_size_t)


@cache
def _code(folder: Path) -> str:
    """A digest of the Python code and launch files in a folder."""
    files = sorted(each for kind in ("py", "toml") for each in folder.rglob(f"*.{kind}"))
    return sha256(b"\0".join(each.read_bytes() for each in files)).hexdigest()


@cache
def printed(command: str, launch: str, *options: str) -> str:
    """What a command of servonode prints of a launch file, or one of TEXTS; kept as long as no code changes."""

    def make(to: Path) -> None:
        if command in TEXTS:
            to.write_text(TEXTS[command](servonode.load(launch, strict=False).closed_loop))
            return
        done = CliRunner().invoke(main, [*command.split(), launch, *options])
        assert done.exit_code == 0, done.output
        to.write_text(done.stdout)

    code = [_code(Path(servonode.__file__).parent), *([_code(Path(launch).parent)] if "/" in launch else [])]
    return _kept("txt", command, launch, *options, *code, make=make).read_text()


@cache
def library(launch: str = LAUNCH, changes: tuple[tuple[str, str], ...] = ()) -> Path:
    """The firmware of a launch file, compiled once for all processes; the test is skipped where there is no compiler.

    changes: what is replaced in a source, and by what.
    """
    needs_commands("cc")
    texts = {each: (SOURCES / each).read_text() for each in PORTABLE}
    texts |= {"board.c": GLUE, "own_machine.c": printed("show", launch, "--c")}
    texts |= {"own_machine.h": printed("header", launch), "own_sensors.c": printed("sensors", launch)}
    for old, new in changes:
        name = next((each for each, text in texts.items() if old in text), "")
        assert name, old
        texts[name] = texts[name].replace(old, new, 1)
    headers = {str(each.relative_to(SOURCES)): each.read_text() for each in SOURCES.rglob("*.h")}
    headers |= {name: text for name, text in texts.items() if name.endswith(".h")}
    objects = [_made(name, text, headers) for name, text in texts.items() if name.endswith(".c")]
    return _kept("so", *map(str, objects), make=lambda to: _cc("-shared", *objects, "-lm", "-o", to))


def _made(name: str, text: str, headers: Mapping[str, str]) -> Path:
    """The object of a source."""

    def make(to: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for each, content in {**headers, name: text}.items():
                file = Path(folder, each)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
            _cc(f"-I{folder}", '-DMACHINE_HEADER="own_machine.h"', "-c", Path(folder, name), "-o", to)

    return _kept("o", text, *headers.values(), make=make)


def _kept(kind: str, *texts: str, make: Callable[[Path], object]) -> Path:
    """A file made of these texts, which all processes of this user share."""
    folder = Path(tempfile.gettempdir(), f"servonode-boards-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    made = folder / f"{sha256(chr(0).join(texts).encode()).hexdigest()[:20]}.{kind}"
    if not made.exists():
        own = made.with_suffix(f".{os.getpid()}.{kind}")
        make(own)
        own.replace(made)
    return made


def _cc(*words: object) -> None:
    options = ["-std=c99", "-O1", "-ffp-contract=off", "-fPIC"]
    subprocess.run(["cc", *options, *map(str, words)], check=True, timeout=120)


class Board:
    """One start of the firmware, which knows no run yet. send: what becomes of each packet that it sends."""

    def __init__(
        self, send: Callable[[bytes], object], source: int, library: Path,
        any_speed: bool = False, law: bool = True, readings: bool = False,
    ) -> None:  # fmt: skip
        with tempfile.NamedTemporaryFile(suffix=".so") as own:  # its variables are its own
            own.write(library.read_bytes())
            own.flush()
            self._c = ctypes.CDLL(own.name)
        self._c.board_due.restype = ctypes.c_int64
        self._c.board_truth.restype = ctypes.c_uint64
        for each in (self._c.board_next_bytes, self._c.board_next_frame):
            each.restype = ctypes.c_size_t
        self._send = SEND(lambda _, data, size: send(ctypes.string_at(data, size)) and None)
        self._out = (ctypes.c_uint8 * 4096)()
        begun = self._c.board_begin(ctypes.c_uint32(source), int(any_speed), int(law), int(readings), self._send)
        assert begun, "this machine has no sensors"

    def due(self) -> int | None:
        """When it next does something by itself [ns]; None: only when something comes."""
        found = int(self._c.board_due())
        return None if found == NEVER else found

    def advance(self, now: int) -> None:
        """Let its time pass up to now."""
        self._c.board_advance(ctypes.c_int64(now))

    def receive(self, now: int, packet: bytes) -> bool:
        """Take a packet; whether it is from the host of the run."""
        return bool(self._c.board_receive(ctypes.c_int64(now), packet, ctypes.c_size_t(len(packet))))

    def bytes(self, now: int, data: bytes) -> None:
        """Take bytes of a serial line."""
        self._c.board_bytes(ctypes.c_int64(now), data, ctypes.c_size_t(len(data)))

    def frame(self, now: int, data: bytes) -> None:
        """Take a frame of a CAN bus."""
        self._c.board_frame(ctypes.c_int64(now), data, ctypes.c_size_t(len(data)))

    def put(self, packet: bytes) -> None:
        """Let a packet wait for a free line."""
        self._c.board_put(packet, ctypes.c_size_t(len(packet)))

    def next_bytes(self) -> bytes:
        """What leaves next over a serial line; empty: nothing waits."""
        return self._taken(self._c.board_next_bytes)

    def next_frame(self) -> bytes:
        """The frame that leaves next for a CAN bus; empty: nothing waits."""
        return self._taken(self._c.board_next_frame)

    def _taken(self, call: Callable[..., int]) -> bytes:
        return ctypes.string_at(self._out, call(self._out))

    def truth(self) -> tuple[int, list[float], list[float]]:
        """Its step, and of the simulated machine the true state and the inputs that act; both longer than needed."""
        x, u = (ctypes.c_double * 64)(), (ctypes.c_double * 32)()
        return int(self._c.board_truth(x, u)), list(x), list(u)
