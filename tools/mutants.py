"""Whether the tests notice wrong code: each mutant of `mutants.toml` is put into a copy, and its nearest tests run.

`python tools/mutants.py [WORDS ...]` tries the mutants whose names have one of the words, or all of them. The name of
a mutant is the wrong fact that its text makes true. Exit code 1: less than 95 % of the safety core's mutants are
killed, a text does not stand exactly once in its file, or tests fail without a mutant.

Tools that mutate each operator of a module (mutmut, cosmic-ray) do not fit: they make thousands of mutants without
names, count equivalent ones in the score, and do not know which tests are nearest.
"""

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools" / "mutants.toml"
LEAST = 0.95  # share of the safety core's mutants that must be killed
HANGS = 120  # s, after which a mutant whose tests do not end counts as killed
KILLED, SURVIVED, LOST, BROKEN = "killed", "SURVIVED", "does not apply", "tests cannot run"
OPTIONS = (
    *(word for each in ("xdist.plugin", "pytest_timeout", "_hypothesis_pytestplugin") for word in ("-p", each)),
    *("-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--import-mode=importlib"),
    *("--hypothesis-seed=0", f"--timeout={HANGS}"),
)
LOADED = ("numpy", "scipy.optimize", "sympy", "llvmlite.binding", "zmq", "msgspec", "hypothesis", "pytest")


@dataclass(frozen=True)
class Mutant:
    """One wrong fact: a text, and what stands there instead. nearest: tests that run first, before all of `files`."""

    fact: str
    file: Path
    text: str
    wrong: str
    files: tuple[str, ...]
    nearest: tuple[str, ...]
    core: bool

    @property
    def name(self) -> str:
        """The file and the fact."""
        return f"{self.file.stem}: {self.fact}"


def read_table() -> tuple[list[Mutant], tuple[str, ...]]:
    """The mutants, and words in the names of tests that are too slow for them."""
    table = tomllib.loads(TABLE.read_text())
    found = []
    for part in table["part"]:
        file = Path("src", "servonode", part["file"])
        for fact, text, wrong, *tests in part["mutants"]:
            files = tuple(each for each in tests if "/" in each) or tuple(part["tests"])
            nearest = tuple(each for each in tests if "/" not in each)
            found.append(Mutant(fact, file, text, wrong, files, nearest, part.get("core", False)))
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SystemExit(f"{TABLE.name}: named twice: {', '.join(sorted(twice))}; give each another name")
    return found, tuple(table["slow"])


def write(file: Path, content: str) -> None:
    """Write a source file, and remove what was compiled of it: its time and size may be those of before."""
    file.write_text(content)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


class Copy:
    """A copy of all files that git knows or would add, and a process there that runs tests."""

    def __init__(self, folder: Path, slow: Sequence[str]) -> None:
        self.folder, self._slow = folder, slow
        for name in git("ls-files", "-co", "--exclude-standard"):
            if (ROOT / name).is_symlink() or (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        self._server = subprocess.Popen(
            [sys.executable, __file__, "--serve"], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, files: Sequence[str], nearest: Sequence[str] = ()) -> int:
        """Run the fast tests of files, or all with one of these names, until one fails; returns pytest's exit code."""
        words = " or ".join(nearest) or " and ".join(f"not {word}" for word in self._slow)
        marks = "not soak" if nearest else "not slow and not soak"
        print("\t".join([*OPTIONS, "-m", marks, "-k", words, *files]), file=self._server.stdin, flush=True)
        return int(self._server.stdout.readline() or -1)

    def output(self) -> str:
        """What the last run printed."""
        return (self.folder / "output.txt").read_text(errors="replace")

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """Whether the tests of a mutant notice it, those that are nearest or else any in their files; which one."""
        file = self.folder / mutant.file
        before = file.read_text() if file.is_file() else ""
        if before.count(mutant.text) != 1:
            return LOST, ""
        write(file, before.replace(mutant.text, mutant.wrong))
        try:
            code = self.run(mutant.files, mutant.nearest)
            if mutant.nearest and code != 1:
                code = self.run(mutant.files)
        finally:
            write(file, before)
        by = [line.split()[1] for line in self.output().splitlines() if line.startswith("FAILED")]
        return {0: SURVIVED, 1: KILLED}.get(code, BROKEN), "".join(by[:1])


def serve() -> None:
    """In a copy: run what each line of the input says in a process of its own, and answer with its exit code."""
    for library in LOADED:
        importlib.import_module(library)
    pytest = importlib.import_module("pytest")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = int(pytest.main(line.rstrip("\n").split("\t")))
            sys.stdout.flush()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def git(*words: str) -> list[str]:
    """The names of files that a command of git lists."""
    found = subprocess.run(["git", *words, "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return list(filter(None, found.stdout.split("\0")))


def chosen(mutants: Sequence[Mutant], words: Sequence[str], reference: str | None) -> Iterator[Mutant]:
    """The mutants whose names have one of the words, of files that were changed themselves or in their tests."""
    changed = None if reference is None else set(git("diff", "--name-only", reference))
    for each in mutants:
        concerned = changed is None or changed & {str(each.file), *each.files}
        if concerned and (not words or any(word in each.name for word in words)):
            yield each


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("words", nargs="*", help="try only mutants whose names have one of these words")
    parser.add_argument("--changed", metavar="REF", help="only those whose files, or files of tests, differ from REF")
    parser.add_argument("-n", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a mutant first")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    mutants, slow = read_table()
    tried = list(chosen(mutants, options.words, options.changed))
    begun, results = time.monotonic(), dict[Mutant, str]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(options.n) as pool:
        free = [Copy(Path(folder, str(number)), slow) for number in range(min(options.n, len(tried)))]

        def with_a_copy(do: Callable[[Copy, Any], Any], what: Any) -> Any:
            copy = free.pop()
            try:
                return do(copy, what)
            finally:
                free.append(copy)

        def complaint(copy: Copy, file: str) -> str:
            return copy.output() if copy.run([file]) else ""

        files = [] if options.trust else sorted({file for each in tried for file in each.files})
        if failing := list(filter(None, pool.map(partial(with_a_copy, complaint), files))):
            print("without a mutant these tests fail or are not found:", *failing, sep="\n")
            return 1
        for mutant, (result, by) in zip(tried, pool.map(partial(with_a_copy, Copy.judge), tried), strict=True):
            results[mutant] = result
            print(f"{result:16}  {mutant.name}  {by}", flush=True)
    for result in (SURVIVED, LOST, BROKEN):
        named = [each.name for each, found in results.items() if found == result]
        print(f"\n{result}: {len(named)}", *named, sep="\n  ") if named else None
    core = [found for each, found in results.items() if each.core]
    score = core.count(KILLED) / len(core) if core else 1.0
    killed = list(results.values()).count(KILLED)
    print(f"\n{killed} of {len(results)} mutants are killed, of the safety core {score:.1%} of {len(core)}", end=" ")
    print(f"in {time.monotonic() - begun:.0f} s")
    return int(score < LEAST or bool({LOST, BROKEN} & set(results.values())))


if __name__ == "__main__":
    sys.exit(main())
