"""Tables of six columns and more: each cell says the head of its column, which a narrow screen shows beside it."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

MANY = 6


class ColumnHeads(SphinxTransform):
    """Puts the heads into the cells; the style sheet hides them where the table has its columns."""

    default_priority = 900

    def apply(self, **kwargs: Any) -> None:  # noqa: ARG002
        for table in self.document.findall(nodes.table):
            head, body = next(table.findall(nodes.thead), None), next(table.findall(nodes.tbody), None)
            heads = [entry.astext() for entry in head[0]] if head else []
            if body is None or len(heads) < MANY:
                continue
            table["classes"].append("many-columns")
            for row in body:
                for text, entry in list(zip(heads, row, strict=False))[1:]:
                    if isinstance(entry[0], nodes.paragraph):
                        whole = nodes.inline("", "", *entry[0].children)
                        entry[0].children = []
                        entry[0] += [nodes.inline("", text, classes=["column-head"]), whole]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(ColumnHeads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
