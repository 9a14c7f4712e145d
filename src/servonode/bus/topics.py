"""The table of topics and their message types. `bus/topology.py` has the publishers and subscribers."""

from servonode.bus.messages import Applied, Command, Estimate, Message, Parameters, Report, Setup, State, Status, Target

# No word is the start of another: ZeroMQ matches subscriptions by prefix.
TOPICS: dict[str, type[Message]] = {
    "state": State,
    "command": Command,
    "applied": Applied,
    "setup": Setup,
    "target": Target,
    "report": Report,
    "status": Status,
    "estimate": Estimate,
    "parameters": Parameters,
}


def topic_named(word: str) -> type[Message]:
    """The message type of topic `word`; ValueError with the choices for an unknown one."""
    try:
        return TOPICS[word]
    except KeyError:
        raise ValueError(f"topic {word!r} is unknown; choose {', '.join(sorted(TOPICS))}") from None
