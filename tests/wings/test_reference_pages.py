"""The reference of launch files and the schema hold what the core and all wings add."""

from servonode.closed_loop.schema import launch_schema
from tests.closed_loop.test_schema import DOCS, MADE_PAGE


def test_the_reference_page_is_up_to_date() -> None:
    page = (DOCS / "reference" / "launch_files.md").read_text()
    assert page == MADE_PAGE, "run: python docs/_extensions/launch_reference.py > docs/reference/launch_files.md"


def test_the_schema_is_up_to_date() -> None:
    stored = (DOCS / "reference" / "launch_file.schema.json").read_text()
    made = "from servonode.closed_loop.schema import launch_schema; print(launch_schema(), end='')"
    assert stored == launch_schema(), f'run: python -c "{made}" > docs/reference/launch_file.schema.json'
