"""The entry points of the wing for other tools: references by kind and name."""

ENTRY_POINTS = {
    "commands": {"bridge": "servonode.wings.neighbours.commands:bridge"},
    "exports": {
        "ros2": "servonode.wings.neighbours.exports:ROS2",
        "foxglove": "servonode.wings.neighbours.exports:FOXGLOVE",
        "rerun": "servonode.wings.neighbours.exports:RERUN",
    },
    "views": {"drawings": "servonode.wings.neighbours.exports:DRAWINGS"},
}
