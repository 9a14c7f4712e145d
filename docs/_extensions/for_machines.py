"""`llms.txt` of the site: its pages with their first sentences, for readers that are programs."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

ADDRESS = "https://servonode.readthedocs.io/en/latest"
HEAD = """\
# servonode

> From the equations of a machine and a goal to a checked, running controller: Python, Linux, pip install from a clone.

A machine is stated by its Lagrangian, constraints and inputs (in Python, or in TOML alone), or by a URDF or MJCF file;
a goal by servo-constraints, which are equations that should hold. `servonode check FILE` gives a verdict before
power-on, `servonode simulate FILE --report FILE.html` a run, `servonode run FILE` the run on processes in real time;
in Python these are `servonode.check`, `servonode.simulate`, `servonode.run`. All values are SI and radians.
"""
SENTENCE = re.compile(r".+?[.?](?=\s|$)", re.S)
DOWNLOAD = "Download this page"  # of a notebook


def write(app: Sphinx, error: Exception | None) -> None:
    """Write it where the site is written."""
    if error is not None or app.builder.format != "html":
        return
    lines = [HEAD]
    for caption, pages in _sections(app):
        lines.append(f"\n## {caption}\n")
        lines += [f"- [{title}]({ADDRESS}/{page}.html): {_first(app, page)}" for title, page in pages]
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def _sections(app: Sphinx) -> list[tuple[str, list[tuple[str, str]]]]:
    """The captions of the first page's lists, each with titles and names of its pages."""
    from sphinx.addnodes import toctree

    trees = app.env.get_doctree("index").findall(toctree)
    return [(each["caption"] or "", [(title or page, page) for title, page in each["entries"]]) for each in trees]


def _first(app: Sphinx, page: str) -> str:
    """The first sentence of a page."""
    for paragraph in app.env.get_doctree(page).findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if not text.startswith(DOWNLOAD) and (found := SENTENCE.match(text)):
            return found[0]
    return ""


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
