"""device.c and packet.c with a mutation, as the robot with the trailer that rolls on, in a time that the test moves."""

import ctypes
import subprocess
from collections import Counter
from pathlib import Path

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.drivers import packets
from tests.helpers.firmware import SOURCES, needs_commands
from tests.helpers.timed_board import WIRE_NS, Time

MACHINE = r"""
#include <math.h>
#include <string.h>
#include "device.h"
struct device device;
static struct machine machine;
static float x[8], limits[2] = {2.0f, 2.0f};
static double b, l, r;
static uint32_t look(void *self, float *out) { (void)self; memcpy(out, x, sizeof x); return 0; }
static void act_on(void *self, const float *u) { (void)self; (void)u; }
static void put_at(void *self, const float *at) { (void)self; memcpy(x, at, sizeof x); }
static void roll(void *self, double t)
{
    const double h = 1e-3, psi = x[2], phi = x[3], V = x[4], turn = x[5];
    const double left = (V - l * turn) / r, right = (V + l * turn) / r, hitch = -V / b * sin(phi) - turn;
    const double rates[] = {V * cos(psi), V * sin(psi), turn, hitch, 0, 0, left, right};
    (void)self; (void)t;
    for (int i = 0; i < 8; i++) x[i] += (float)(h * rates[i]);
}
void board_begin(uint32_t schema, double b_, double l_, double r_, void (*send)(void *, const uint8_t *, size_t))
{
    b = b_; l = l_; r = r_;
    machine = (struct machine){.schema = schema, .n_states = 8, .n_inputs = 2, .step_ns = 1000000,
        .longest_timeout_ns = 500000000, .limits = limits, .simulated = 1, .read = look, .write = act_on,
        .advance = roll, .start = put_at};
    device_init(&device, &machine, 9, send, 0);
}
int64_t board_due(void) { return device_due(&device); }
void board_advance(int64_t now) { device_advance_to(&device, now); }
void board_receive(int64_t now, const uint8_t *bytes, size_t size) { device_receive(&device, now, bytes, size); }
"""
SEND = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), ctypes.c_size_t)


class MutatedFirmware:
    """A transport to it. mutations: what is replaced in device.c or packet.c, and by what."""

    lost = hint = ""
    fds: tuple[int, ...] = ()

    def __init__(self, time: Time, closed_loop: ClosedLoop, folder: Path, mutations: dict[str, str]) -> None:
        needs_commands("cc")
        sources = {name: (SOURCES / name).read_text() for name in ("device.c", "packet.c")}
        for old, new in mutations.items():
            name = next((each for each, text in sources.items() if old in text), "")
            assert name, old
            sources[name] = sources[name].replace(old, new, 1)
        for name, text in {"board.c": MACHINE, **sources}.items():
            (folder / name).write_text(text)
        files = [str(folder / name) for name in ("board.c", *sources)]
        command = ["cc", "-std=c99", "-O1", "-fPIC", "-shared", f"-I{SOURCES}", *files, "-lm", "-o"]
        subprocess.run([*command, str(folder / "board.so")], check=True)
        self._c = ctypes.CDLL(str(folder / "board.so"))
        self._c.board_due.restype = ctypes.c_int64
        self._send = SEND(self._sent)
        machine = closed_loop.machine
        p, said = machine.parameters, machine.description
        schema = packets.schema_of(said.name, said.state_names, said.input_names)
        self._c.board_begin(
            ctypes.c_uint32(schema), *(ctypes.c_double(p[name]) for name in ("b", "l", "r")), self._send
        )
        self.counts, self.place, self._time, self._at = Counter[str](), "mutated", time, time.now
        self._to_board: list[tuple[int, bytes]] = []
        self.to_host: list[tuple[int, bytes]] = []

    def open(self) -> None: ...
    def close(self) -> None: ...
    def reopen(self) -> None: ...

    def due(self) -> int | None:
        return None

    def send(self, packet: bytes) -> None:
        self._to_board.append((self._time.now + WIRE_NS, packet))

    def receive(self, bound: int) -> list[bytes]:
        self.advance()
        came = [data for at, data in self.to_host if at <= self._time.now][:bound]
        del self.to_host[: len(came)]
        return came

    def _sent(self, _: object, data: "ctypes._Pointer[ctypes.c_uint8]", size: int) -> None:
        self.to_host.append((self._at + WIRE_NS, bytes(data[:size])))

    def advance(self) -> None:
        """All that happens up to now: steps and packets, in order."""
        now = self._time.now
        while True:
            packet = self._to_board[0][0] if self._to_board else now + 1
            self._at = min(packet, self._c.board_due())
            if self._at > now:
                return
            if self._at == packet:
                data = self._to_board.pop(0)[1]
                self._c.board_receive(ctypes.c_int64(packet), data, ctypes.c_size_t(len(data)))
            else:
                self._c.board_advance(ctypes.c_int64(self._at))
