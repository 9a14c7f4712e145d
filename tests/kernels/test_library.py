"""The texts in `kernels/lib`: sizes and what they call are given when they are read."""

import pytest

from servonode.kernels.language import KernelError, parse
from servonode.kernels.library import FOLDER, library_text

ROUNDING = library_text("rounding", {}, {})
SIZES = {
    name: i + 2
    for i, name in enumerate(
        ("n_tau", "bounded", "n_counts", "drive_rows", "n_state", "n_x", "error_rows", "believed_rows", "one")
    )
}


@pytest.mark.parametrize(
    "name", sorted(each.stem for each in FOLDER.glob("*.py") if each.stem not in ("__init__", "names"))
)
def test_each_text_is_in_the_kernel_language_with_sizes_as_numbers(name: str) -> None:
    module = parse(library_text(name, {"rounding": "kernel_r"}, SIZES), lambda _: ROUNDING)
    assert module.own
    assert all(SIZES[size] == n for size, n in module.constants.items() if size in SIZES)


def test_a_size_that_is_not_given_is_refused() -> None:
    with pytest.raises(KernelError, match="the length is outside of the kernel language: n_tau"):
        parse(library_text("limits", {}, {"bounded": 2}))
