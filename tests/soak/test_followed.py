"""tests/helpers/followed.py: a page that is wrong is found out, whatever is wrong with it."""

import re
from pathlib import Path

import pytest

from tests.helpers.followed import Page, Step, agree, commands_of, lacking

PAGE = """## A page

**greet.sh**

```sh
trap 'echo interrupted; exit 7' INT
echo hello
read line < pipe
echo "$line"
sleep 5
```

```sh
mkfifo pipe
cat > name.txt <<'END'
Ada

END
```

**Terminal 1**

```sh
sh greet.sh; echo "exit code $?"
```

**Terminal 1**

```text
hello
```

**Terminal 2**

```sh
head -1 name.txt > pipe
```

**Terminal 1**

```text
Ada
```

**Terminal 1**

```text
^C
interrupted
exit code 7
```
"""


def followed(tmp_path: Path, text: str) -> str:
    """What is wrong with a page; empty where nothing is."""
    (tmp_path / "page.md").write_text(text)
    (tmp_path / "folder").mkdir()
    try:
        Page(str(tmp_path / "page.md")).follow(tmp_path / "folder")
    except AssertionError as error:
        return str(error)
    return ""


def test_a_page_with_two_terminals_is_followed(tmp_path: Path) -> None:
    assert followed(tmp_path, PAGE) == ""
    assert (tmp_path / "folder" / "name.txt").read_text() == "Ada\n\n"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("\nexit code 7", "\nexit code 1"), ("\ninterrupted", "\nstopped"), ("\nmkfifo pipe", "\nmkfifo pipe; false")],
)
def test_followed_finds_what_a_page_has_wrong(tmp_path: Path, right: str, wrong: str) -> None:
    assert right in PAGE
    assert followed(tmp_path, PAGE.replace(right, wrong))


def test_a_command_that_never_ends_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.helpers.followed.LIMIT_S", 0.5)
    found = followed(tmp_path, "## A page\n```sh\nsleep 60\n```\n")
    assert re.search(r"sleep 60.*still runs after 0\.5 s", found)


def test_a_key_is_pressed_only_while_something_runs(tmp_path: Path) -> None:
    found = followed(tmp_path, "## A page\n```sh\ntrue\n```\n\n**Terminal 2**\n\n```text\n^C\n```\n")
    assert "^C is pressed, but nothing runs" in found


def test_commands_are_lines_but_for_heredocs_and_backslashes() -> None:
    assert commands_of("a\ncat <<'END'\nb\nEND\nc \\\n  d") == ("a", "cat <<'END'\nb\nEND", "c \\\n  d")


@pytest.mark.parametrize(
    ("printed", "actual", "rough", "live", "fits"),
    [
        ("  energy 1.2", "  energy 1.3", True, False, True),
        ("  plant       fault   t = 1.0 s", "  plant       fault   t = 7.3 s", False, False, True),
        ("run 0.2/60 s  1x", "run 3.2/60 s  0.9x", False, False, True),
        ("robot (process 12)", "robot (process 3456)", False, True, True),
        ("ended after 7.7 s of plant time in 7.75 s", "ended after 9.1 s of plant time in 9.13 s", False, True, True),
        ("  missed   1 deadlines", "  missed   1 deadlines, 3 overruns", False, False, True),
        ("  energy 1.2", "  energy 1.4", True, False, False),
        ("  energy 1.2", "  energy 1.33", False, False, False),
        ("  energy 1.2", "  power 1.2", True, True, False),
        ("line 7", "line 8", True, False, False),
        ("  plant       fault   t = 1.0 s", "  plant       active   t = 1.0 s", False, True, False),
        ("run 0.2/60 s  1x", "run 0.2/60 s  FAULT estop", False, True, False),
        ("robot (process 12)", "robot (process 3456)", False, False, False),
    ],
)
def test_timings_may_differ_and_nothing_else(printed: str, actual: str, rough: bool, live: bool, fits: bool) -> None:
    assert agree(printed, actual, rough, live) == fits


@pytest.mark.parametrize(
    ("printed", "actual", "fits"),
    [
        ("a\nb", "a\nb", True),
        ("a\nb", "a\nb\nc", False),
        ("a\n...\nc", "a\nb\nc", True),
        ("a\n...", "b\na", False),
        ("...\nb", "b\na", False),
        ("a", "servonode: deriving and compiling machine x, once\nrun 0.2/60 s  1x\na", True),
        ("...\na\n...\nc\n...", "c\na\nb", False),
    ],
)
def test_three_dots_stand_for_lines_left_out(printed: str, actual: str, fits: bool) -> None:
    assert (lacking(Step(("command",), printed), actual)[0] is None) == fits
