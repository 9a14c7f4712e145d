"""The entry points of the wing of robots from files: references by kind and name."""

_FILES = "servonode.wings.robots.definition:FILES"

ENTRY_POINTS = {
    "drivers": {"mujoco": "servonode.wings.robots.mujoco_driver:DRIVER"},
    "exports": {"urdf": "servonode.wings.robots.exports:URDF"},
    "sources": {"urdf": _FILES, "xml": _FILES, "mjcf": _FILES, "xacro": _FILES},  # xacro is refused with its remedy
    "sections": {
        "plant.mujoco": "servonode.wings.robots.sections:Contact",
        "plant.robot": "servonode.wings.robots.sections:RobotKeys",
    },
}
