"""Links to files of the repository that are no pages lead to the project's address.

In the repository they are relative links and work there too.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "https://github.com/servonode/servonode"


def address_of(path: Path, fragment: str) -> str | None:
    """Where a file or folder of the repository stands at the project's address; None where there is no such file."""
    if not path.exists() or not path.is_relative_to(ROOT):
        return None
    kind = "tree" if path.is_dir() else "blob"
    return f"{ADDRESS}/{kind}/main/{path.relative_to(ROOT).as_posix()}" + (f"#{fragment}" if fragment else "")


class RepositoryLinks(SphinxTransform):
    """Replaces what MyST would copy as a download, or not find since it is a folder or a page outside docs."""

    default_priority = 5

    def apply(self, **kwargs: Any) -> None:  # noqa: ARG002
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for node in list(self.document.findall(kind)):
                if node.get("reftype") == "myst" and (address := self.address(node)):
                    node.replace_self(nodes.reference("", "", *node.children, refuri=address))

    def address(self, node: nodes.Element) -> str | None:
        """Where a link leads that stays in the repository and is no page of the site; None for all others."""
        target, _, fragment = node["reftarget"].partition("#")
        if node.get("refdomain") == "doc":  # the path without its ending
            if target in self.env.found_docs:
                return None
            fragment = node.get("reftargetid") or ""
            target = next(
                (f"{target}{each}" for each in self.config.source_suffix if Path(target + each).is_file()), ""
            )
        here = Path(self.env.doc2path(self.env.docname)).parent
        return address_of((here / target).resolve(), fragment) if target else None


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(RepositoryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
