"""The page on extensions names files of the core and of the wings."""

import re

from tests.test_readmes import PACKAGE, ROOT


def test_files_that_the_page_on_extensions_names_are_there() -> None:
    page = (ROOT / "docs" / "how_to" / "extend.md").read_text("utf-8")
    files = {each for each in re.findall(r"`([a-z_][\w/]*/\w+\.\w+)`", page) if not re.search("[A-Z]", each)}
    assert len(files) > 20
    assert [each for each in files if not ((PACKAGE / each).is_file() or (ROOT / each).is_file())] == []
