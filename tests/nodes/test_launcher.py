"""The launcher before it has nodes: signals leave nothing."""

import os
import signal
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from servonode.cli.deliver import ENDING
from servonode.cli.main import main
from servonode.nodes.node_processes import NodeProcesses
from tests.helpers.runs import private_runtime

LAUNCH = "trailer_pursuit"


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("moment", ["_locked", "_private"])
def test_a_signal_while_the_folder_is_made_leaves_no_file_and_starts_no_node(
    number: signal.Signals, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["servonode.bus.run_folder"]
    make = getattr(module, moment)

    def signalled_after(*given: Any) -> Any:
        made = make(*given)
        os.kill(os.getpid(), number)
        return made

    monkeypatch.setattr(module, moment, signalled_after)
    monkeypatch.setattr(NodeProcesses, "start", lambda *_: pytest.fail("a node was started"))
    # SIGHUP may be ignored here, as under nohup; and a command that was told to end ignores what comes after
    previous = {each: signal.signal(each, signal.SIG_DFL) for each in ENDING}
    with private_runtime() as runtime:
        try:
            ended = CliRunner().invoke(main, ["run", LAUNCH, "--name", "cut-off", "--no-report"])
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)
        assert ended.exit_code == 128 + number, ended.output
        assert list(runtime.rglob("*")) == []
