"""All benchmarks, one table after the other: kernels and long runs against C, exchanges against bare sockets.

    python benchmarks            the tables, but for those of minutes
    python benchmarks chain      one of them; `-h` lists them
    python benchmarks --json     one JSON object, keyed by benchmark

Each runs in a process of its own, so that pinning and loaded libraries of one do not act on the next.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "kernels",
    "exchanges",
    "hoop",
    "ball",
    "startup",
    "chain",
    "derivation",
    "robots",
    "mechanisms",
    "gallery",
    "window",
    "page",
    "paced",
    "listeners",
    "bridges",
    "hostile",
    "soak",
    "physics",
    "drivers",
    "sweep",
    "environments",
    "keeping",
    "keeps",
)
USUAL = BENCHMARKS[:5]  # the others take minutes


def run(name: str, *options: str) -> str:
    """What the benchmark prints; ends this process if it fails, with its words on stderr."""
    script = Path(__file__).with_name(f"{name}.py")
    done = subprocess.run([sys.executable, str(script), *options], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script.name} failed with exit code {done.returncode}")
    return done.stdout


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__, formatter_class=formatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the tables")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*BENCHMARKS, []], help=", ".join(BENCHMARKS))
    arguments = parser.parse_args()
    names = arguments.names or USUAL
    if arguments.json:
        print(json.dumps({name: json.loads(run(name, "--json")) for name in names}, indent=1))
        return
    for name in names:
        print(f"{name}\n{'-' * len(name)}\n{run(name)}", flush=True)


if __name__ == "__main__":
    main()
