"""The errors of the core and of all wings are the ones that are known."""

from servonode.errors import ServonodeError
from tests.test_errors import FAULTS, INTERNAL, errors


def test_internal_errors_and_faults_are_those_that_are_listed() -> None:
    found = errors()
    assert {name for name, each in found.items() if not issubclass(each, ServonodeError)} == INTERNAL
    codes = {name: each.exit_code for name, each in found.items() if issubclass(each, ServonodeError)}
    assert {name for name, code in codes.items() if code == 1} == FAULTS
