"""The texts in `kernels/lib`: sizes and what they call are given when they are read."""

import re

import pytest

from servonode.kernels.language import KernelError, parse
from servonode.kernels.library import FOLDER, library_text
from servonode.mechanics.computed import TREE_SIZES

WORDS = (FOLDER / "names.pyi").read_text()
SIZES = {name: i + 2 for i, name in enumerate(re.findall(r"^class (\w+)\(metaclass=Size\)", WORDS, re.M))}
SIZES |= TREE_SIZES
SIZES |= dict.fromkeys(re.findall(r"^(\w+): int", WORDS, re.M), 0)
SIZES |= dict.fromkeys(re.findall(r"^(\w+): bool", WORDS, re.M), 1)
TEXTS = sorted(each.stem for each in FOLDER.glob("*.py") if each.stem != "__init__")
RESULTS = {"None": "pass", "bool": "return True", "int": "return 0", "float": "return 0.0"}
STATED = (FOLDER / "given.pyi").read_text().partition("import *\n")[2]
GIVEN = re.sub(r"-> (\w+):\n.*\n", lambda found: f"-> {found[1]}:\n    {RESULTS[found[1]]}\n", STATED)


def text_of(key: str) -> str:
    """The text of a module; each other one is a kernel of its name."""
    sizes = "".join(f"{name} = {size}\n" for name, size in SIZES.items())
    given = {name: ("given", name) for name in re.findall(r"^def (\w+)", GIVEN, re.M)}
    return sizes + GIVEN if key == "given" else library_text(key, {each: each for each in TEXTS}, SIZES, given)


@pytest.mark.parametrize("name", TEXTS)
def test_each_text_is_in_the_kernel_language_with_sizes_as_numbers(name: str) -> None:
    module = parse(text_of(name), text_of)
    assert module.own
    assert all(SIZES[size] == n for size, n in module.constants.items() if size in SIZES)


def test_a_size_that_is_not_given_is_refused() -> None:
    with pytest.raises(KernelError, match="the length is outside of the kernel language: n_tau"):
        parse(library_text("limits", {}, {"bounded": 2}))
