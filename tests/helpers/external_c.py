"""The external plant in C of examples/, built by its Makefile."""

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SANITIZED = "-O1 -g -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all"


@cache
def _missing() -> str:
    """Why it cannot be built here; empty: it can."""
    missing = [name for name in ("cc", "make") if shutil.which(name) is None]
    if missing:
        return f"the command {missing[0]} is not found"
    headers = "#include <zmq.h>\n#include <msgpack.h>\n"
    found = subprocess.run(["cc", "-E", "-"], input=headers, capture_output=True, text=True, check=False)
    return (
        "" if found.returncode == 0 else "zmq.h or msgpack.h is not found: apt-get install libzmq3-dev libmsgpack-dev"
    )


@cache
def external_c(flags: str = "-O2", *settings: str) -> str:
    """The program's path, built with these flags of the compiler; the test is skipped where it cannot be built.

    settings: further ones of make, such as LAUNCH=FILE.
    """
    if reason := _missing():
        pytest.skip(reason)
    folder = tempfile.mkdtemp(prefix="servonode-c-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    servonode = Path(sys.executable).with_name("servonode")
    command = ["make", "-C", str(EXAMPLES), f"BUILD={folder}", f"SERVONODE={servonode}", f"CFLAGS={flags}", *settings]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return f"{folder}/external_plant"
