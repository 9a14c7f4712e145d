"""What a release needs, proved beforehand; and the first line of the pages, changed on its day.

python packaging/release.py check     try every step but the upload (make release-check)
python packaging/release.py index     have the pages install from the package index instead of a clone
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from servonode.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
CLONE = "git clone https://github.com/servonode/servonode && cd servonode\n"
INDEX = "pip install servonode\n"
NOT_YET = "The package is not on the package index yet: it is installed from a clone.\n\n"
PAGES = ("README.md", "docs/index.md", "docs/install.md", "docs/tutorials/first_run.md")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def from_index(page: str) -> str:
    """A page whose commands begin with an installation from the index where they began with a clone."""

    def installed(found: re.Match[str]) -> str:
        lines = found[1].replace(CLONE, "").replace("pip install .\n", INDEX).replace("uv run ", "")
        return f"```sh\n{lines if INDEX in lines else INDEX + lines}```"

    page = page.replace(NOT_YET, "")
    return BLOCK.sub(lambda found: installed(found) if CLONE in found[1] else found[0], page)


def problems() -> Iterator[str]:
    """What stands in the way: texts that do not agree, a package that does not build, install or run."""
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if not re.search(rf"^## \[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        yield f"CHANGELOG.md has no section [{VERSION}] with a date; servonode/version.py states this version"
    if not re.search(rf"^version: {re.escape(VERSION)}$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE):
        yield f"CITATION.cff does not state version {VERSION}"
    for page in PAGES:
        if CLONE not in (ROOT / page).read_text("utf-8"):
            yield f"{page} does not begin with a clone; leave it out of PAGES, or state {CLONE.strip()!r}"
    with tempfile.TemporaryDirectory() as folder:
        yield from _of_packages(Path(folder))


def _of_packages(folder: Path) -> Iterator[str]:
    """What is wrong with the packages: each is built, examined, installed in an environment of its own, and run."""
    bin_ = folder / "env" / "bin"
    steps = [
        ["uv", "build", "-q", "--out-dir", str(folder / "dist"), str(ROOT)],
        [sys.executable, "-m", "twine", "check", "--strict", f"{folder}/dist/*"],
        ["uv", "venv", "-q", str(folder / "env")],
    ]
    for kind in ("whl", "tar.gz"):
        package = f"{folder}/dist/servonode-{VERSION}*.{kind}"
        steps += [
            ["sh", "-c", f"uv pip install -q --reinstall-package servonode --python {bin_}/python {package}"],
            [str(bin_ / "servonode"), "--version"],
            [str(bin_ / "servonode"), "run", "trailer_pursuit", "--set", "run.duration=10", "--no-report"],
        ]
    for step in steps:
        try:
            done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            yield f"{step[0]} is not installed"
            return
        if done.returncode:
            yield f"{' '.join(step)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}"
            return


def main() -> None:
    match sys.argv[1:]:
        case ["check"]:
            found = list(problems())
            for each in found:
                sys.stderr.write(f"release: {each}\n")
            sys.exit(f"release: {len(found)} things stand in the way" if found else None)
        case ["index"]:
            for page in PAGES:
                (ROOT / page).write_text(from_index((ROOT / page).read_text("utf-8")), "utf-8")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
