"""The command line with the commands of all wings: answers as JSON, exit codes, groups."""

import click

from servonode.cli.main import main
from tests.cli.test_command_line import CODES
from tests.helpers.commands import verbs
from tests.helpers.refusals import command

NO_JSON = {  # commands without --json, and why
    "completion": "prints a script for a shell",
    "param dump": "prints TOML for a launch file; param list has the same as JSON",
    "hil header": "prints a header in C",
    "hil sensors": "prints functions in C",
    "plot": "opens a window",
    "page": "serves a page; its link goes to standard error",
    **dict.fromkeys(("bridge foxglove", "bridge ros2"), "serves other tools; what it says goes to standard error"),
}


def test_every_command_that_prints_an_answer_prints_it_as_json() -> None:
    options = {
        name: {word for p in each.get_params(click.Context(each, **main.context_settings)) for word in p.opts}
        for name, each in verbs().items()
    }
    without = {name for name, words in options.items() if "--json" not in words}
    assert without == NO_JSON.keys()


def test_the_exit_codes_of_every_verb_are_known() -> None:
    assert CODES.keys() <= verbs().keys()
    assert {verb for verb, each in verbs().items() if not getattr(each, "exits", None)} == set()
    assert command("run", "--help").stdout == command("run", "-h").stdout


def test_a_group_of_commands_alone_shows_them() -> None:
    result = command("protocol")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "  check  Act as the host of a machine program" in result.stdout
