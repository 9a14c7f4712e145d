"""docs/how_to/own_laws.md and docs/how_to/stable_inversion.md, followed word for word."""

import pytest

from tests.helpers.followed import DOCS, Done, Page, check

pytestmark = pytest.mark.slow  # half a dozen laws are derived and compiled
PAGES = {name: Page(f"how_to/{name}.md") for name in ("own_laws", "stable_inversion")}
STEPS = [(name, number) for name, page in PAGES.items() for number in range(len(page.steps))]
EXAMPLES = DOCS.parent / "examples"


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Done]]:
    """All steps of both pages, each page in a folder of its own."""
    programs = tmp_path_factory.mktemp("bin")
    return {name: page.follow(tmp_path_factory.mktemp(name), programs) for name, page in PAGES.items()}


def test_the_pages_have_files_and_steps() -> None:
    files = ["pendulum.py", "last.py", "pid.py", "pid.toml", "observer.py", "observer.toml", "swing_up.py"]
    assert list(PAGES["own_laws"].files) == [*files, "swing_up.toml", "cascade.py", "cascade.toml"]
    assert len(STEPS) >= 10


@pytest.mark.parametrize(
    "name", ["inverted_pendulum/cart_pendulum.py", "inverted_pendulum/cart.toml", "reversing.toml"]
)
def test_the_page_on_stable_inversion_shows_the_examples_files(name: str) -> None:
    assert PAGES["stable_inversion"].files[name.rpartition("/")[2]] == (EXAMPLES / name).read_text("utf-8")


@pytest.mark.parametrize(("name", "number"), STEPS, ids=[PAGES[name].names[number] for name, number in STEPS])
def test_a_step_does_what_its_page_prints(followed: dict[str, list[Done]], name: str, number: int) -> None:
    check(PAGES[name].steps[number], followed[name][number])
