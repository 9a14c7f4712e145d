"""The entry points of the wing that explores: references by kind and name."""

ENTRY_POINTS = {
    "commands": {
        "sweep": "servonode.wings.explore.commands.sweep:sweep",
        "region": "servonode.wings.explore.commands.methods:region",
        "robustness": "servonode.wings.explore.commands.methods:robustness",
        "tune": "servonode.wings.explore.commands.methods:tune",
        "fastest": "servonode.wings.explore.commands.methods:fastest",
        "identify": "servonode.wings.explore.commands.identify:identify",
    },
}
