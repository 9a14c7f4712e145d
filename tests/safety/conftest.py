"""Assertions in the suite and in what it stands on say what they found, as those of test files do."""

import pytest

pytest.register_assert_rewrite("tests.safety.suite", "tests.helpers.runs")
