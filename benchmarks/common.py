"""Common parts of the benchmarks: their options, C written by hand as a library, one core, peak memory."""

import argparse
import ctypes
import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servonode.controllers import ServoLaw

FLAGS = ("-O3", "-ffp-contract=off", "-shared", "-fPIC")
DRIVER = """\
from {law} import n_x, n_y, n_s, n_out, n_constants, law

def laws(n: i64, x: f64[n_x], y: f64[n_y], c: f64[n_constants], K: f64[3, n_s, n_s], out: f64[n_out]) -> f64:
    at = empty(n_x)
    for j in range(n_x):
        at[j] = x[j]
    total = 0.0
    for i in range(n):
        at[0] = x[0] + i*1e-12
        law(0.0, at, y, c, K, out)
        total += out[0]
    return total
"""


def options(doc: str | None) -> argparse.ArgumentParser:
    """The parser of a benchmark with this text as its help; `--json` is in it."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the tables")
    return parser


def compiled(source: Path) -> ctypes.CDLL:
    """The functions of a C file, which is compiled here.

    Raises:
        SystemExit: there is no C compiler, or it refuses.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise SystemExit(f"{source.name} needs a C compiler and there is no 'cc' on PATH; install gcc or clang")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / f"{source.stem}.so"
        command = [compiler, *FLAGS, str(source), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"cc could not compile {source.name}:\n{done.stderr}")
        return ctypes.CDLL(str(library))


def pin() -> None:
    """Keep this process on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def peak_mb() -> float:
    """The largest memory that this process has had [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def law_driver(law: "ServoLaw") -> Any:
    """Evaluations of a law one after the other by a compiled loop: laws(n, x, y, c, K, out)."""
    from servonode.definitions import cache

    text = DRIVER.format(law=law.kernel.__name__)
    drivers: Any = cache.load(cache.key_of("drivers", text), lambda: (text, b"{}"))[0]
    return drivers.laws
