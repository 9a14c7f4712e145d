"""The documentation site, built into a folder, and what its pages link to and fetch."""

import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FETCHED = {"script": "src", "img": "src", "link": "href", "source": "src", "video": "src", "iframe": "src"}
HINTS = {"canonical", "search", "index", "next", "prev", "genindex"}  # rel of links that a browser does not fetch


class Page(HTMLParser):
    """A page: its anchors, the addresses of its links, and of what a browser fetches to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[each] for each in ("id", "name") if each in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        address = found.get(FETCHED.get(tag, ""), "")
        if address and found.get("rel") not in HINTS:
            self.fetched.append(address)


class Site:
    """The pages of a built site by their path in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @cached_property
    def pages(self) -> dict[str, Page]:
        files = [each for each in self.folder.rglob("*.html") if "_static" not in each.parts]
        return {str(each.relative_to(self.folder)): Page(each.read_text("utf-8")) for each in files}

    def broken(self) -> Iterator[str]:
        """Links and files within the site that lead nowhere, each with its page."""
        for name, page in self.pages.items():
            for address in [*page.links, *page.fetched]:
                url = urlsplit(address)
                if (
                    not url.scheme
                    and not url.netloc
                    and not self._leads(name, unquote(url.path), unquote(url.fragment))
                ):
                    yield f"{name}: {address}"

    def _leads(self, page: str, path: str, fragment: str) -> bool:
        target = ((self.folder / page).parent / path).resolve() if path else self.folder / page
        if target.is_dir():
            target /= "index.html"
        known = self.pages.get(str(target.relative_to(self.folder))) if target.is_relative_to(self.folder) else None
        return fragment in known.anchors if known else target.is_file()

    def fetched_from_elsewhere(self) -> Iterator[str]:
        """What a page needs from a network, each with its page."""
        for name, page in self.pages.items():
            yield from (f"{name}: {each}" for each in page.fetched if urlsplit(each).netloc)


def build(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Build the site into a folder as `make docs` does: each warning is an error."""
    options = ["-b", "html", "-W", "--keep-going", "-q", "-d", str(folder.parent / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
