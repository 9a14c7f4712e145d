import pytest

from tests.helpers.c_code import Library, builder


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Compiles a C file without a warning and loads it."""
    return builder(lambda: tmp_path_factory.mktemp("c"))
