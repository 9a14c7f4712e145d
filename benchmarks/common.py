"""Common parts of the benchmarks: their options, C written by hand as a library, one core, peak memory."""

import argparse
import ctypes
import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

FLAGS = ("-O3", "-ffp-contract=off", "-shared", "-fPIC")


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
