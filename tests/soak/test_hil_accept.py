"""`servonode hil accept` over a real wire, in its own time."""

import json

from click.testing import CliRunner

from servonode.cli.main import main
from tests.helpers.firmware import Firmware, free_udp_port


def test_good_firmware_with_a_law_is_accepted_over_its_wire() -> None:
    port = free_udp_port()
    said = [f"plant.device.address=127.0.0.1:{port}", "plant.device.law=true"]
    words = ["hil", "accept", "trailer_pursuit_udp", *(word for each in said for word in ("--set", each)), "--json"]
    with Firmware("robot", "--udp", str(port)):
        result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert (printed["verdict"], printed["place"]) == ("yes", f"127.0.0.1:{port}")
    assert (printed["findings"], printed["undecided"]) == ([], [])
    assert len(printed["proven"]) > 26
