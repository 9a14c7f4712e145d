"""Colours, links and the browser: where a terminal is, and nowhere else."""

import io
import webbrowser
from pathlib import Path

import pytest

from servonode.cli.terminal import linked, opened, painted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "CLICOLOR", "BROWSER", "SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("text", "word", "code"),
    [("verdict          yes", "yes", 32), ("verdict          no", "no", 31), ("ok               rank: 1", "ok", 32),
     ("warn             goal: far", "warn", 33), ("NO               rank: 0", "NO", 31),
     ("system   WRONG kernel", "WRONG", 31), ("  warning           late", "warning", 33),
     ("servonode: bad", "servonode:", 31), ("arm 1/2 s  FAULT tilt, held", "FAULT tilt", 31),
     ("arm 1/2 s  PAUSED: resume", "PAUSED", 33)],
)  # fmt: skip
def test_each_word_has_its_colour_on_a_terminal(text: str, word: str, code: int) -> None:
    assert painted(text, Terminal()) == text.replace(word, f"\033[{code}m{word}\033[0m", 1)


def test_other_lines_have_none() -> None:
    text = "  faults            none\n  note_1 ok\nok: no verdict yes"
    assert painted(text, Terminal()) == text


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("CLICOLOR", "0"), ("TERM", "dumb")])
def test_who_wants_no_colour_has_none(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert painted("verdict          yes", Terminal()) == "verdict          yes"


def test_a_file_and_a_pipe_have_neither_colour_nor_link() -> None:
    assert painted("verdict          yes", io.StringIO()) == "verdict          yes"
    assert linked(Path("a.png"), io.StringIO()) == []


def test_a_terminal_has_a_link_to_the_file_whatever_its_name(tmp_path: Path) -> None:
    (line,) = linked(tmp_path / "my arm%\033[31m.png", Terminal())
    assert f"file://{tmp_path}/my%20arm%25%1B%5B31m.png" in line


def test_a_browser_opens_where_there_is_a_display(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = list[str]()
    monkeypatch.setattr(webbrowser, "open", lambda url: shown.append(url) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    opened(tmp_path / "a b.html")
    opened("http://127.0.0.1:8642/token/")
    assert shown == [f"file://{tmp_path}/a%20b.html", "http://127.0.0.1:8642/token/"]


@pytest.mark.parametrize(
    ("name", "reason"), [("SSH_CONNECTION", "this is a session over ssh"), ("", "there is no display here")]
)
def test_elsewhere_a_line_says_why_nothing_is_opened(
    name: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("was opened"))
    monkeypatch.setattr("sys.platform", "linux")
    if name:
        monkeypatch.setenv(name, "1.2.3.4")
    opened("http://a/")
    assert capsys.readouterr().err == f"servonode: --open: {reason}; open http://a/\n"
