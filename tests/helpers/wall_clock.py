"""A wall clock that a test sets, for the programs of one computer: their C library reads it, whatever they are.

The monotonic clock stays as it is.
"""

import atexit
import os
import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.helpers.c_code import compiler

SECONDS = struct.Struct("q")
TEXT = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *ahead; /* s; the test writes it */

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("WALL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *at = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) ahead = at;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &found)) return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found)) return -1;
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}
"""


class WallClock:
    """A clock in a file: as that of this computer, until it is set."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.write_bytes(SECONDS.pack(0))
        self.environment = {"LD_PRELOAD": _library(), "WALL_CLOCK": str(file)}

    def set(self, ahead_s: int) -> None:
        """From now on it is so many seconds ahead of this computer's clock."""
        with self._file.open("r+b") as opened:  # the same file: the programs have it in their memory
            os.pwrite(opened.fileno(), SECONDS.pack(ahead_s), 0)


@cache
def _library() -> str:
    """The path of the library; the test is skipped where it cannot be built."""
    command, folder = compiler(), Path(tempfile.mkdtemp(prefix="servonode-clock-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "clock.c").write_text(TEXT)
    flags = ["-O2", "-Wall", "-Wextra", "-fPIC", "-shared"]
    subprocess.run([command, *flags, "clock.c", "-o", "clock.so"], cwd=folder, check=True)
    return str(folder / "clock.so")
