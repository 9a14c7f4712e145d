"""The reference page of the launch file is the one that the code makes."""

from pathlib import Path

from servonode.nodes.reference import launch_reference

PAGE = Path(__file__).parents[2] / "docs" / "launch_files.md"


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == launch_reference(), "run: python -m servonode.nodes.reference > docs/launch_files.md"
