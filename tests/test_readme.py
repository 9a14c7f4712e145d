"""README.md: its machine runs, and what it quotes is printed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def block(language: str) -> str:
    """The one block of this language in the README."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)
    return str(text)


@pytest.mark.slow
def test_its_lines_print_and_draw_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(block("python"), "README.md", "exec"), names)  # noqa: S102  (the README's own)
    assert capsys.readouterr().out == block("text")
    assert (tmp_path / "arm.png").stat().st_size > 20_000
    assert np.abs(names["loop"].simulate().residual["arm"]).max() < 1e-4
