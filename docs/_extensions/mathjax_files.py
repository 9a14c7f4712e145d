"""MathJax beside the pages, so that formulas are set without a network: its script and fonts, of a Python package."""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

PACKAGE = "sphinx-mathjax-offline"  # no name that an import statement takes
SCRIPT = "tex-chtml-full.js"  # with all words of TeX, of which the smaller one loads some from elsewhere
FONTS = "output/chtml/fonts/woff-v2"


def packaged() -> Path:
    """The folder of MathJax in its package."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ExtensionError(f"the package {PACKAGE} is not installed; install the dependency group docs")
    return Path(found.origin).parent / "static" / "mathjax"


def copy(app: Sphinx, error: Exception | None) -> None:
    """Copy what pages load into the built site."""
    if error or app.builder.format != "html":
        return
    to = Path(app.outdir) / "_static" / "mathjax"
    shutil.copytree(packaged() / FONTS, to / FONTS, dirs_exist_ok=True)
    shutil.copy2(packaged() / SCRIPT, to / SCRIPT)


def setup(app: Sphinx) -> dict[str, Any]:
    app.config.mathjax_path = f"mathjax/{SCRIPT}"
    app.config.mathjax3_config = {"chtml": {"displayAlign": "center"}}
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
