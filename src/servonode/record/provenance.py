"""The provenance of a recording: versions of servonode and its libraries, the processor, digests of the kernels."""

import platform
import sys
from typing import Any

from servonode.definitions.cache import loaded_digests
from servonode.kernels.host import this_host, version_of
from servonode.version import VERSION

LIBRARIES = ("numpy", "llvmlite", "pyzmq", "msgspec")


def provenance() -> dict[str, Any]:
    """All of it, with names and values that JSON can carry. The same bits are promised where all of it is the same."""
    libc, version = platform.libc_ver()
    return {
        "servonode": VERSION,
        "python": sys.version.split()[0],
        "libraries": {name: version_of(name) for name in LIBRARIES},
        "system": f"{platform.system()} {platform.machine()}",
        "libm": f"{libc} {version}".strip(),
        "processor": this_host().processor,
        "kernels": loaded_digests(),
    }
