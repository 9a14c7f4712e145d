"""The process that reads and changes numbers of a run for the page: a request on each line, an answer on each line.

The server of the page computes nothing, so that its emergency stop never waits for what is judged here.
"""

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from servonode.closed_loop.parameters import Parameter
from servonode.errors import ServonodeError
from servonode.nodes.node_process import call_process
from servonode.operator.find_runs import find_run
from servonode.operator.run_parameters import RunParameters


class Numbers:
    """The numbers of the run of this name, or in this folder, which may be another one at each request."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._run: RunParameters | None = None

    def answer(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Change these (none: only read); {"text": what to show, "done": whether they act, "numbers": all of them}."""
        try:
            run = self._current()
            text = "; ".join(f"acts from step {each.k} on, t = {each.t:.6g} s" for each in run.change(values))
            return {"text": text, "done": True, "numbers": [_shown(each) for each in run.now().values()]}
        except (ServonodeError, OSError) as error:
            return {"text": str(error), "done": False}

    def _current(self) -> RunParameters:
        found = find_run(self._name or None)
        if self._run is None or self._run.run.registry.get("start") != found.registry.get("start"):
            self._run = RunParameters(str(found.path))
        return self._run


def _shown(each: Parameter) -> dict[str, Any]:
    """A number for the page, which has no infinity."""
    low, high = each.slider
    value = each.value if abs(each.value) < float("inf") else None
    about = {"key": each.key, "unit": each.unit, "text": each.description, "range": each.range}
    return {**about, "value": value, "low": low, "high": high}


def main(name: str) -> int:
    """Answer until standard input ends."""
    with contextlib.suppress(KeyboardInterrupt):
        call_process("page numbers", name)
        numbers, decode = Numbers(name), msgspec.json.Decoder(dict[str, float]).decode
        for line in sys.stdin.buffer:
            try:
                answer = numbers.answer(decode(line))
            except msgspec.DecodeError as error:
                answer = {"text": f"give numbers by key ({error})", "done": False}
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
