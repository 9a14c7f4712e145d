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
    "public": {
        "Env": "servonode.wings.explore.environments.environment:Env",
        "Identification": "servonode.wings.explore.identification.identification:Identification",
        "VectorEnv": "servonode.wings.explore.environments.environment:VectorEnv",
        "environments": "servonode.wings.explore.environments.registered:register_all",
        "fastest": "servonode.wings.explore.sweeps.fastest:fastest",
        "frequency_response": "servonode.wings.explore.questions:frequency_response",
        "identify": "servonode.wings.explore.identification.recordings:identification_of",
        "margins": "servonode.wings.explore.questions:margins",
        "poles_along": "servonode.wings.explore.linear.poles_along:poles_along",
        "region": "servonode.wings.explore.questions:region",
        "robustness": "servonode.wings.explore.sweeps.robustness:robustness",
        "sweep": "servonode.wings.explore.questions:sweep",
        "tune": "servonode.wings.explore.questions:tune",
    },
    "sections": {"sweep": "servonode.wings.explore.sections:Sweep"},
}
