"""Notebooks are Python files with cells after `# %%`; each is a page, and an .ipynb beside it."""

import re
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "notebooks"


def read(text: str) -> nbformat.NotebookNode:
    """A notebook of the text of such a file, without what is only for the linter before its first cell."""
    return jupytext.reads(re.sub(r"\A(# ruff: .*\n)+", "", text), fmt="py:percent")


def add_link(app: Sphinx, document: nodes.document) -> None:
    """Below the title of each notebook a link to its .ipynb."""
    folder, _, name = app.env.docname.rpartition("/")
    source = Path(app.env.doc2path(app.env.docname))
    if folder != FOLDER or source.suffix != ".py":
        return
    title = next(document.findall(nodes.title))
    link = nodes.reference("", f"{name}.ipynb", refuri=f"{name}.ipynb", classes=["notebook-download"])
    title.parent.insert(1, nodes.paragraph("", "", nodes.Text("Download this page as a notebook: "), link))


def write(app: Sphinx, error: Exception | None) -> None:
    """Write each notebook, not executed, beside its page."""
    if error or app.builder.format != "html":
        return
    for source in (Path(app.srcdir) / FOLDER).glob("*.py"):
        notebook = read(source.read_text("utf-8"))
        nbformat.write(notebook, Path(app.outdir) / FOLDER / f"{source.stem}.ipynb")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", add_link)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
