"""Compute the tables and pictures of docs/systems anew: papers' figures and statements, reports of launch files.

    python docs/validation/gallery.py                 all of them, a few minutes
    python docs/validation/gallery.py NAME ...        only these entries, or launch files whose reports a page shows
    python docs/validation/gallery.py --check [NAME]  compare the tables with those of the pages
    python docs/validation/gallery.py --list          the names

A page has the tables of an entry between `<!-- computed: NAME -->` and `<!-- end -->`; all else on it is written by
hand. Nothing depends on the clock, so running it again gives the same pages.
"""

import argparse
import difflib
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from gallery_entries import ENTRIES
from gallery_entries.frame import Content, Table
from gallery_entries.png import packed
from matplotlib.figure import Figure
from PIL import Image

import servonode
from servonode.closed_loop.launch_file import packaged
from servonode.views.report import report_figure
from servonode.views.sheet import PIXELS, PRINT, WIDTH

DOCS = Path(__file__).resolve().parents[1]
SYSTEMS, PICTURES = DOCS / "systems", DOCS / "images" / "gallery"
COMPUTED = re.compile(r"(?<=<!-- computed: )(\S+) -->\n\n(.*?)\n<!-- end -->", re.DOTALL)
SHOWN = re.compile(r"\]\(\.\./images/gallery/(\w+)\.png\)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to compute; all without")
    parser.add_argument("--check", action="store_true", help="compare the tables with the pages, write nothing")
    parser.add_argument("--list", action="store_true", help="print all names")
    arguments = parser.parse_args()
    known = [*ENTRIES, *reports()]
    if arguments.list:
        sys.stdout.write("\n".join(known) + "\n")
        return
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"{unknown[0]!r} is not known; choose {', '.join(known)}")
    mpl.rcParams.update(PRINT)
    wanted = arguments.names or known
    made = {name: computed(name, ENTRIES[name], not arguments.check) for name in wanted if name in ENTRIES}
    if arguments.check:
        sys.exit(compare(made))
    for name in wanted:
        if name not in ENTRIES:
            sys.stderr.write(f"{name}\n")
            save(report_figure(servonode.simulate(name), name), name)
    write(made)
    drop_unused()


def pages() -> dict[Path, str]:
    """The pages that show tables and pictures."""
    return {file: file.read_text("utf-8") for file in sorted(SYSTEMS.glob("*.md"))}


def shown() -> set[str]:
    """The stems of all pictures that pages show."""
    return {stem for text in pages().values() for stem in SHOWN.findall(text)}


def reports() -> list[str]:
    """The launch files whose reports pages show."""
    seen = shown()
    return [name for name in packaged() if name in seen and name not in ENTRIES]


def computed(name: str, make: Callable[[], Content], draw: bool) -> str:
    """The tables of an entry as Markdown; its pictures are written on the way."""
    sys.stderr.write(f"{name}\n")
    content = make()
    if draw:
        for stem, draw_picture in content.pictures.items():
            save(draw_picture(), stem)
    return "\n".join(map(markdown, content.tables))


def markdown(table: Table) -> str:
    """A table as lines of Markdown."""
    heads, *rows = ("| " + " | ".join(cells) + " |\n" for cells in (table.heads, *table.rows))
    return "".join([heads, "|---" * len(table.heads) + "|\n", *rows])


def compare(made: dict[str, str]) -> int:
    """Print what differs between tables computed now and those on the pages; 1 where something does."""
    written = {name: tables for text in pages().values() for name, tables in COMPUTED.findall(text)}
    differs = 0
    for name, text in made.items():
        old, new = written.get(name, "").splitlines(), text.splitlines()
        for line in difflib.unified_diff(old, new, f"{name} on its page", f"{name} now", lineterm=""):
            sys.stdout.write(line + "\n")
            differs = 1
    return differs


def write(made: dict[str, str]) -> None:
    """Replace the tables of entries on their pages; end with a message where one has no place."""
    places = {name for text in pages().values() for name, _ in COMPUTED.findall(text)}
    if lost := [name for name, text in made.items() if text and name not in places]:
        sys.exit(f"no page has the lines '<!-- computed: {lost[0]} -->', '' and '<!-- end -->'")

    def replaced(found: re.Match[str]) -> str:
        return f"{found[1]} -->\n\n{made.get(found[1], found[2])}\n<!-- end -->"

    for file, text in pages().items():
        file.write_text(COMPUTED.sub(replaced, text), "utf-8")


def save(figure: Figure, stem: str) -> None:
    """Write a figure as a PNG of all its colours, without a date in it, packed as tightly as it goes."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    raw = io.BytesIO()
    figure.savefig(raw, format="png", dpi=PIXELS / WIDTH)
    with Image.open(raw) as image:
        (PICTURES / f"{stem}.png").write_bytes(packed(image))


def drop_unused() -> None:
    """Remove pictures that no page shows."""
    for stem in {file.stem for file in PICTURES.glob("*.png")} - shown():
        (PICTURES / f"{stem}.png").unlink()


if __name__ == "__main__":
    main()
