"""The entry points of the wing of robots from files: references by kind and name."""

ENTRY_POINTS = {
    "drivers": {"mujoco": "servonode.wings.robots.mujoco_driver:DRIVER"},
}
