"""What machine code depends on beside its text: processor, interpreter, and version of llvmlite.

Nothing of this imports llvmlite, which takes as long as loading many kernels.
"""

import functools
import hashlib
import os
import platform
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from servonode.errors import ServonodeError

_MODEL = ("model name", "flags", "CPU part", "Features")  # lines of /proc/cpuinfo, for x86 and ARM


class Host(msgspec.Struct, frozen=True):
    """Where machine code was made. processor: a digest of its model and features.

    optimisation: LLVM's level, by SERVONODE_OPTIMISATION; the bits are those of each.
    """

    processor: str
    python: str
    llvmlite: str
    optimisation: int


@functools.cache
def this_host() -> Host:
    """The host that this process runs on. Raises ServonodeError if SERVONODE_OPTIMISATION is no level."""
    return Host(hashlib.sha256(_processor().encode()).hexdigest(), sys.version, version_of("llvmlite"), _optimisation())


def _optimisation() -> int:
    level = os.environ.get("SERVONODE_OPTIMISATION", "2")
    if level not in ("0", "1", "2"):
        raise ServonodeError(f"SERVONODE_OPTIMISATION: {level!r} is no level of LLVM; choose 0, 1 or 2 (the default)")
    return int(level)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join([platform.machine(), *sorted({line for line in lines if line.startswith(_MODEL)})])


def version_of(library: str) -> str:
    """The version of an installed library, which is not imported.

    It stands in the name of the folder that an installer leaves beside the library. Where none or more than one is
    found, importlib.metadata is asked, which takes ten times as long to import.
    """
    spec = find_spec(library)
    if spec and spec.origin:
        found = list(Path(spec.origin).parents[1].glob(f"{library}-*.dist-info"))
        if len(found) == 1:
            return found[0].name.removeprefix(f"{library}-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version(library)
