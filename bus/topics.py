"""The one table of topics: what each carries, who publishes it, whether a recorder keeps it."""

from dataclasses import dataclass

from servonode.bus.messages import Applied, Command, Message, Report, Setup, State, Status, Target


@dataclass(frozen=True)
class Topic:
    """One line of the table."""

    message: type[Message]
    publisher: str  # role of the node that binds it
    record: bool


# No word is the start of another: ZeroMQ matches subscriptions by prefix.
TOPICS: dict[str, Topic] = {
    # topic            message   publisher     recorded
    "state": Topic(State, "plant", record=True),
    "command": Topic(Command, "controller", record=True),
    "applied": Topic(Applied, "plant", record=True),
    "setup": Topic(Setup, "plant", record=True),
    "target": Topic(Target, "target", record=True),
    "report": Topic(Report, "controller", record=True),
    "status": Topic(Status, "every node", record=True),
}


def topic_named(word: str) -> Topic:
    """The line of topic `word`; ValueError naming the choices if there is none."""
    try:
        return TOPICS[word]
    except KeyError:
        raise ValueError(f"topic {word!r} is unknown; choose {', '.join(sorted(TOPICS))}") from None
