"""The page of two computers, followed word for word on two: what concerns the robot is typed there."""

import shlex
import sys
from pathlib import Path

from tests.helpers import enter
from tests.helpers.computers import Computer, two_computers
from tests.helpers.followed import DOCS, Page
from tests.soak.test_pages import MADE, is_made

NAME = "how_to/several_computers"
ROBOTS, DRIVEN = 1, "\n## A machine with its own program\n"  # sections that need no second computer with servonode


def program(computer: Computer) -> str:
    """The words that have servonode run on a computer, in the folder of whoever types."""
    settings = [f"{name}={value}" for name, value in computer.environment.items()]
    words = ["env", "-u", "SERVONODE_RUNTIME_DIR", *settings, sys.executable, "-S", enter.__file__, str(computer.pid)]
    return f'{shlex.join(words)} "$PWD" {sys.executable} -m servonode.cli.main "$@"'


def test_the_page_of_two_computers_is_followed_on_two(tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    with two_computers(tmp_path) as pair:
        pair.network.set(delay=0.002)
        script = f"""here=desk
case "$SERVONODE_KEYS" in */robot) here=robot ;; esac
for word; do [ "$word" = robot ] && here=robot; done
[ $here = desk ] && exec {program(pair.desk)}
exec {program(pair.robot)}"""
        text = (DOCS / f"{NAME}.md").read_text("utf-8")
        replaced = {text[text.index(DRIVEN) :]: "", "localhost": "robot.local"}
        Page(f"{NAME}.md", ROBOTS, replaced).follow(folder, {}, script)
    assert [each for each in MADE[NAME] if not is_made(folder / each)] == []
