"""The documentation site: `make docs` builds it into docs/_build/html."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from servonode.version import VERSION

project = "servonode"
author = "the authors of servonode"
project_copyright = author
version = release = VERSION

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "command_line",
    "docstrings",
    "for_machines",
    "live_figures",
    "many_columns",
    "mathjax_files",
    "notebook_pages",
    "repository_links",
]
exclude_patterns = ["_build", "_extensions", "conf.py", "validation/*.py", "validation/gallery_entries"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures; docstrings have no roles
show_warning_types = True

html_theme = "furo"
html_title = f"servonode {VERSION}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_logo = html_favicon = "_static/logo.svg"
html_theme_options = {
    "source_repository": "https://github.com/servonode/servonode/",
    "source_branch": "main",
    "source_directory": "docs/",
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_exclude = ".linenos, .gp, .go"
linkcheck_anchors = False  # those of this site are checked by the build

myst_enable_extensions = ["dollarmath", "attrs_inline", "colon_fence"]
myst_heading_anchors = 4

nb_execution_mode = "force"  # a cache would not see that servonode has changed
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # s, a cell
nb_custom_formats = {".py": "notebook_pages.read"}
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
