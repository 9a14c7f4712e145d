"""The section [report] of launch files: what the report of a run offers to vary, and a task for its reader."""

from typing import Annotated, Any, ClassVar

from servonode.closed_loop.launch_file import joined_key
from servonode.closed_loop.launch_keys import Text
from servonode.plants.keys import AddedSection, key


class Reported(AddedSection, frozen=True):
    """[report]: the sliders of a report in HTML, and the words above it; the run itself ignores it."""

    fixed: ClassVar[str] = "it belongs to the report of a run that is over"
    unvaried: ClassVar[str] = "belongs to the report, and to no run; vary a key of another section"
    alone: ClassVar[str] = "belongs to the report of one run; state it in the launch file that the robot includes"

    title: Annotated[Text | None, key("a heading above the report, such as that of an exercise")] = None
    text: Annotated[Text | None, key("the words below the heading, plain text; blank lines part paragraphs")] = None
    vary: Annotated[
        list[Text], key("the keys whose sliders come first, such as `controller.gains.lambda`; the others are folded")
    ] = []

    @classmethod
    def stated(cls, table: dict[str, Any]) -> dict[str, Any]:
        """The table, the names of parameters joined."""
        vary = table.get("vary")
        if not isinstance(vary, list):
            return table
        return {**table, "vary": [joined_key(each) if isinstance(each, str) else each for each in vary]}
