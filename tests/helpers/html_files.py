"""An HTML file as a test looks at it: its elements, whether they are closed, what it would fetch, its data."""

import base64
import json
from html.parser import HTMLParser
from typing import Any

import numpy as np

VOID = {"meta", "link", "input", "br", "hr", "img"}
FETCHING = {"src", "href", "srcset", "action", "data", "poster", "xlink:href"}


class HtmlFile(HTMLParser):
    """A text of HTML. wrong: elements that were not closed, or closed but not open; fetched: what it asks for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.fetched: list[str] = []
        self.scripts: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        self.wrong += self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [f"{tag} {name}={value}" for name, value in attrs if name in FETCHING]
        self.wrong += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif not self.open or self.open[-1] != "style":
            self.words += data

    @property
    def data(self) -> Any:
        """What the file's own script reads."""
        return json.loads(self.scripts[0])


def decoded(text: str, kind: str = "f4") -> Any:
    """The numbers of base64."""
    return np.frombuffer(base64.b64decode(text), f"<{kind}")
