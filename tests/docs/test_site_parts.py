"""What the site makes of docstrings, help texts and links into the repository."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("sphinx", reason="needs the dependency group docs")
EXTENSIONS = Path(__file__).parents[2] / "docs" / "_extensions"


def extension(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", EXTENSIONS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("the rate of `x_dot` * 2", r"the rate of ``x_dot`` \* 2"),
        ("a name input_ and |x|", r"a name input\_ and \|x\|"),
        ("* a list with x_dot", "* a list with x_dot"),
        ("`a` and `b*c`", "``a`` and ``b*c``"),
        (r"1\2", r"1\\2"),
    ],
)
def test_a_line_of_a_docstring_keeps_its_characters(markdown: str, text: str) -> None:
    assert extension("docstrings").converted(markdown) == text


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("see --set for KEY_NAME", r"see `--set` for KEY\_NAME"),
        ("[x>=1]", r"\[x\>=1\]"),
        ("a well-known value", "a well-known value"),
    ],
)
def test_a_help_text_keeps_its_characters_and_shows_options_as_code(text: str, markdown: str) -> None:
    assert extension("command_line").escaped(text) == markdown


def test_a_link_to_a_file_or_folder_of_the_repository_leads_to_the_project() -> None:
    links = extension("repository_links")
    address = "https://github.com/servonode/servonode"
    assert links.address_of(links.ROOT / "README.md", "") == f"{address}/blob/main/README.md"
    assert links.address_of(links.ROOT / "benchmarks", "") == f"{address}/tree/main/benchmarks"
    assert links.address_of(links.ROOT / "README.md", "x") == f"{address}/blob/main/README.md#x"
    assert links.address_of(links.ROOT / "absent.md", "") is None
    assert links.address_of(Path("/etc/passwd"), "") is None


def test_a_notebook_begins_with_its_title() -> None:
    notebook = extension("notebook_pages").read("# ruff: noqa: T201\n# %% [markdown]\n# # Title\n\n# %%\nprint(1)\n")
    assert [(each.cell_type, each.source) for each in notebook.cells] == [("markdown", "# Title"), ("code", "print(1)")]
