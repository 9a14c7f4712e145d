"""What this wing adds to `servonode show`: a machine as URDF."""

from typing import TYPE_CHECKING

from servonode.export.exports import Export

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop


def _urdf(closed_loop: "ClosedLoop") -> str:
    from servonode.wings.robots.urdf import urdf_text

    return urdf_text(closed_loop.source.build(), closed_loop.machine.parameters)


URDF = Export("Print the links and joints of the machine as URDF.", text=_urdf)
