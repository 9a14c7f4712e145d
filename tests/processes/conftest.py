"""What all tests of processes share: an operator who waits for a minute for what a busy computer does late."""

import pytest

from servonode.operator import operator_requests
from tests.helpers.events import LONG_S


@pytest.fixture(autouse=True)
def _long_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator in the test's own process waits for answers and confirmations for a minute."""
    monkeypatch.setattr("tests.helpers.runs.ANSWER_S", LONG_S)
    for limit in ("ANSWER_S", "CONFIRM_S"):
        monkeypatch.setattr(operator_requests, limit, LONG_S)
