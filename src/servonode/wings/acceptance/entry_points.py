"""The entry points of the acceptance wing: references by kind and name."""

ENTRY_POINTS = {
    "commands": {
        "protocol": "servonode.wings.acceptance.commands:protocol",
        "hil": "servonode.wings.acceptance.commands:hil",
    },
}
