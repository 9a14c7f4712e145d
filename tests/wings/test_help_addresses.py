"""Help and errors of the core and of all wings point to pages of the site."""

import re

from servonode.version import SITE, page
from tests.docs.test_reference import ADDRESS, DOCS, strings
from tests.helpers.commands import helps


def test_help_and_errors_point_to_pages_by_their_address_and_to_no_file_that_a_wheel_lacks() -> None:
    shown = list(helps().values())
    texts = [*shown, *strings()]
    assert [each for each in texts if re.search(r"\bdocs/\w+/", each)] == []
    addresses = {found for each in shown for found in ADDRESS.findall(each)}
    assert page("reference/protocol") in addresses
    pages = {page(str(each.relative_to(DOCS).with_suffix(""))) for each in DOCS.rglob("*.md")}
    assert addresses <= {SITE, *pages}
