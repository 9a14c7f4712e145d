"""Make docs/validation/gallery.md and its pictures from the launch files.

    python docs/validation/gallery.py                 all of it, a few minutes
    python docs/validation/gallery.py NAME ...        only these entries, or launch files of "Further runs"
    python docs/validation/gallery.py --check [NAME]  compute the numbers anew and compare them with the page
    python docs/validation/gallery.py --list          the names

Every number beside a paper's is computed by the runs. Nothing in the text depends on the clock, so that running it
again gives the same page.
"""

import argparse
import difflib
import io
import re
import sys
from pathlib import Path

import matplotlib as mpl
from gallery_entries import ENTRIES, SOURCES
from gallery_entries.frame import Content, Entry, Source, Table
from gallery_entries.png import packed
from matplotlib.figure import Figure
from PIL import Image

import servonode
from servonode.closed_loop.launch_file import LaunchError, packaged
from servonode.views.report import report_figure
from servonode.views.sheet import PIXELS, PRINT, WIDTH

HERE = Path(__file__).resolve().parent
PAGE, PICTURES = HERE / "gallery.md", HERE.parent / "images" / "gallery"
MARKED = re.compile(r"<!-- entry: (\S+) -->\n?(.*?)<!-- end -->", re.DOTALL)
INTRO = """# Gallery

<!-- made by `python docs/validation/gallery.py` from the entries in docs/validation/gallery_entries -->

Statements of published papers, tested by runs, and every packaged run. "The paper" has what a paper says; the columns
on the right are computed when this page is made. Few papers print numbers, and of some we had the text alone: each
section says what is not reproduced. Tests compare whole runs with derivations and calculations that use no code of
servonode (`tests/analysis`). [Errata](errata.md) lists what papers print otherwise.

"Continuous" is `--control continuous`, integrated to 10⁻¹²; other runs are the sampled loop. Units are SI and radians.
`--report FILE.png` draws the report, `--out FILE.csv` writes all columns.

```{toctree}
:hidden:

errata
```
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="entries to make; all without")
    parser.add_argument("--check", action="store_true", help="compare the numbers with the page, write nothing")
    parser.add_argument("--list", action="store_true", help="print the names of all entries")
    arguments = parser.parse_args()
    known = {each.name: each for each in ENTRIES} | {name: name for name in further()}
    if arguments.list:
        sys.stdout.write("\n".join(known) + "\n")
        return
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"{unknown[0]!r} is no entry; choose {', '.join(known)}")
    mpl.rcParams.update(PRINT)
    written = sections(PAGE.read_text("utf-8")) if PAGE.is_file() else {}
    wanted = arguments.names or list(known)
    made = {name: section(known[name], draw=not arguments.check) for name in wanted}
    if arguments.check:
        sys.exit(compare(made, written))
    page = assembled({name: text for name, text in (written | made).items() if name in known})
    PAGE.write_text(page, "utf-8")
    drop_unused(page)


def further() -> list[str]:
    """Packaged launch files that no entry uses."""
    used = {name for entry in ENTRIES for name in entry.launches}
    return [name for name in packaged() if name not in used]


def sections(page: str) -> dict[str, str]:
    """The text of each entry on a page, by name."""
    return dict(MARKED.findall(page))


def compare(made: dict[str, str], written: dict[str, str]) -> int:
    """Print what differs between entries made now and those on the page; 1 where something does."""
    differs = 0
    for name, text in made.items():
        old, new = (each.rstrip().splitlines() for each in (written.get(name, ""), text))
        for line in difflib.unified_diff(old, new, f"{name} on the page", f"{name} now", lineterm=""):
            sys.stdout.write(line + "\n")
            differs = 1
    return differs


def section(entry: Entry | str, draw: bool) -> str:
    """The Markdown of an entry, or of a further run; its pictures are written on the way."""
    sys.stderr.write(f"{entry if isinstance(entry, str) else entry.name}\n")
    return further_section(entry, draw) if isinstance(entry, str) else entry_section(entry, draw)


def entry_section(entry: Entry, draw: bool) -> str:
    content: Content = entry.make()
    lines = [f"### {entry.title}", "", entry.text.strip(), ""]
    for picture in content.pictures:
        if draw:
            save(picture.draw(), picture.stem)
        lines += [f"![{picture.caption}](../images/gallery/{picture.stem}.png)", ""]
    lines += ["```sh", *entry.commands, "```", ""]
    lines += ["Launch files: " + ", ".join(map(launch_link, entry.launches)) + ".", ""]
    for each in content.tables:
        lines += [*table(each), ""]
    if entry.missing:
        lines += ["**Not reproduced.** " + entry.missing.strip(), ""]
    return "\n".join(lines) + "\n"


def launch_link(name: str) -> str:
    """A link to a packaged launch file."""
    return f"[`{name}`](../../src/servonode/launch/{name}.toml)"


def table(each: Table) -> list[str]:
    """A table as lines of Markdown."""
    rows = [each.heads, tuple("---" for _ in each.heads), *each.rows]
    return ["| " + " | ".join(cells) + " |" for cells in rows]


def further_section(name: str, draw: bool) -> str:
    """The cell of a launch file that is no paper's figure: picture and name, or why it does not start."""
    try:
        result = servonode.simulate(name) if draw else None
        if not draw:
            servonode.load(name)
    except LaunchError as refused:
        return f"{launch_link(name)} does not start: *{refusal(refused)}*"
    if result is not None:
        save(report_figure(result, name), name)
    return f"![{name}](../images/gallery/{name}.png)\n\n{launch_link(name)}"


def refusal(error: LaunchError) -> str:
    """What was refused, without the place of the file."""
    return str(error).partition("] ")[2] or str(error)


def save(figure: Figure, stem: str) -> None:
    """Write a figure as a PNG of all its colours, without a date in it, packed as tightly as it goes."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    raw = io.BytesIO()
    figure.savefig(raw, format="png", dpi=PIXELS / WIDTH)
    with Image.open(raw) as image:
        (PICTURES / f"{stem}.png").write_bytes(packed(image))


def drop_unused(page: str) -> None:
    """Remove pictures that the page does not show."""
    for file in PICTURES.glob("*.png"):
        if f"../images/gallery/{file.name})" not in page:
            file.unlink()


def assembled(texts: dict[str, str]) -> str:
    """The whole page of its entries, in their order."""
    here = {source: [e for e in ENTRIES if e.source == source.key and e.name in texts] for source in SOURCES}
    here = {source: entries for source, entries in here.items() if entries}
    parts = [INTRO, thumbnails([paper(source, texts[entries[0].name]) for source, entries in here.items()])]
    for source, entries in here.items():
        parts += [source_heading(source), *(marked(each.name, texts[each.name]) for each in entries)]
    if rest := [marked(name, texts[name]).rstrip() for name in further() if name in texts]:
        heads = "`servonode simulate NAME --report NAME.png` makes each of these pictures."
        parts += [f"## Further runs\n\n{heads}\n", thumbnails(rest)]
    return "\n".join(parts)


def thumbnails(cells: list[str]) -> str:
    """Small pictures beside each other, each with its words below."""
    return "\n\n".join(['<div class="thumbnails">', *(f"<div>\n\n{each}\n\n</div>" for each in cells), "</div>\n"])


def paper(source: Source, first: str) -> str:
    """The first picture of a paper's section and its heading, both links to it."""
    (picture, *_), to = re.findall(r"\]\((\.\./images/\S+)\)", first), f"#{anchor(source.heading)}"
    return f"[![{source.heading}]({picture})]({to})\n\n[{source.heading}]({to})"


def anchor(heading: str) -> str:
    """The anchor that a Markdown renderer makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def source_heading(source: Source) -> str:
    return f"## {source.heading}\n\n{source.citation}\n\n{source.about.strip()}\n"


def marked(name: str, text: str) -> str:
    return f"<!-- entry: {name} -->\n{text.rstrip()}\n<!-- end -->\n"


if __name__ == "__main__":
    main()
