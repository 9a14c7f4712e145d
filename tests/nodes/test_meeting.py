"""How two relays meet: each finds out who the other is before anything of the run is sent."""

import pytest

from servonode.bus.envelope import MAX_WHY, Busy, Envelope, Hello, Refused
from servonode.bus.keys import TrustedKey
from servonode.nodes.meeting import HELLO_NS, SILENT_NS, TELL_NS, Meeting

HERE, THERE = ("plant",), ("target", "controller")
SAME = {"servonode": "1", "[run] mode": '"lockstep"'}
DESK = TrustedKey("desk", b"", ("controller", "operate"))
SCREEN = TrustedKey("screen", b"", ("observe",))
NOW = 10**12


class Side:
    """A meeting, what it has sent, and what people were told."""

    def __init__(
        self, listens: bool, start: int = 1, manifest: dict[str, str] = SAME, there: tuple[str, ...] = ()
    ) -> None:
        self.sent: list[tuple[bytes, Envelope]] = []
        self.told: list[str] = []
        here, others = (HERE, THERE) if listens else (THERE, HERE)
        self.meeting = Meeting(here, there or others, manifest, start, listens, self.told.append)

    def send(self, peer: bytes, envelope: Envelope) -> None:
        self.sent.append((peer, envelope))

    def take(
        self, said: Hello | Refused | Busy, now: int = NOW, key: TrustedKey | None = DESK, peer: bytes = b""
    ) -> bool:
        return self.meeting.take(peer, key, said, now, self.send)

    def says(self, now: int = NOW) -> Hello:
        """The hello of the one that connects."""
        self.sent.clear()
        self.meeting.greet(now, self.send)
        ((_, hello),) = self.sent
        assert isinstance(hello, Hello)
        return hello


def hello(start: int = 1, nodes: tuple[str, ...] = THERE, manifest: dict[str, str] = SAME) -> Hello:
    return Hello(start, nodes, manifest)


def test_two_relays_meet_in_three_steps() -> None:
    """The one that listens has met another only when that, too, has accepted: it may still refuse."""
    robot, desk = Side(listens=True), Side(listens=False, start=2)
    assert robot.take(desk.says(), peer=b"p")
    ((peer, answer),) = robot.sent
    assert isinstance(answer, Hello)
    assert peer == b"p"
    assert not robot.meeting.met
    assert desk.take(answer, key=None)
    assert desk.meeting.met
    assert robot.meeting.note(b"p", NOW)
    assert robot.meeting.met
    assert not robot.meeting.note(b"another", NOW)


def test_a_hello_is_said_again_until_it_is_answered() -> None:
    desk = Side(listens=False)
    said = 0
    for tick in range(100):
        desk.sent.clear()
        desk.meeting.greet(NOW + tick * HELLO_NS // 10, desk.send)
        said += len(desk.sent)
    assert said == 10
    desk.take(hello(nodes=HERE), NOW + 10 * HELLO_NS, key=None)
    desk.sent.clear()
    desk.meeting.greet(NOW + 12 * HELLO_NS, desk.send)
    assert desk.sent == []
    desk.says(NOW + 10 * HELLO_NS + SILENT_NS)


@pytest.mark.parametrize(
    ("said", "key", "why"),
    [
        (hello(manifest={**SAME, "[run] mode": '"realtime"'}), DESK, "the launch file differs: [run] mode is"),
        (hello(manifest={}), DESK, "servonode differs: here"),
        (hello(nodes=("target",)), DESK, "the other computer runs target, and [hosts] of the launch file here leaves"),
        (hello(nodes=()), DESK, "the other computer runs none"),
        (hello(), SCREEN, "key 'screen' is not trusted as controller by the computer that refuses"),
    ],
)
def test_who_may_not_take_part_is_told_why_and_waited_for(said: Hello, key: TrustedKey, why: str) -> None:
    robot = Side(listens=True)
    assert not robot.take(said, key=key)
    ((_, refused),) = robot.sent
    assert isinstance(refused, Refused)
    assert refused.why.startswith(why)
    assert robot.told[0].endswith("waiting for another attempt")
    assert robot.meeting.peer is None
    assert robot.take(hello())
    assert robot.meeting.refused == ""


def test_the_one_that_connects_is_refused_or_refuses() -> None:
    desk = Side(listens=False)
    desk.take(Refused("some\x1bthing " * MAX_WHY))
    assert len(desk.meeting.refused) == MAX_WHY
    assert desk.meeting.refused.isprintable()
    desk = Side(listens=False)
    assert not desk.take(hello(nodes=HERE), key=SCREEN)
    assert "key 'screen' is not trusted as plant" in desk.meeting.refused
    robot = Side(listens=True)
    robot.take(Refused("whatever"))
    assert robot.meeting.refused == ""


def test_a_computer_without_nodes_must_be_trusted_to_observe() -> None:
    for key, accepted in ((SCREEN, True), (DESK, False)):
        meeting = Meeting(HERE, (), SAME, 1, True, lambda _: None)
        assert meeting.take(b"p", key, hello(nodes=()), NOW, lambda *_: None) == accepted


def test_another_computer_takes_the_place_only_of_one_that_is_silent_or_has_ended() -> None:
    robot = Side(listens=True)
    assert robot.take(hello(start=5), peer=b"one")
    assert not robot.take(hello(start=6), NOW + SILENT_NS - 1, peer=b"two")
    assert robot.meeting.peer == b"one"
    said = robot.sent[-1][1]
    assert isinstance(said, Busy)
    assert "another computer" in said.why
    assert robot.take(hello(start=5), NOW + 1, peer=b"its new relay")
    assert not robot.take(hello(start=5), NOW + 2, peer=b"its new relay")  # once more, as a slow network has it
    assert robot.take(hello(start=6), NOW + 1 + 2 * SILENT_NS, peer=b"two")
    robot.meeting.ended = True
    assert robot.take(hello(start=7), NOW + 2 + 2 * SILENT_NS, peer=b"three")
    assert not robot.meeting.ended


def test_a_computer_that_finds_another_in_its_place_tells_people_once_and_goes_on_saying_hello() -> None:
    desk = Side(listens=False)
    for number in range(20):
        assert not desk.take(Busy("another computer is connected to this run"), NOW + number * HELLO_NS)
        desk.meeting.greet(NOW + number * HELLO_NS, desk.send)
    assert [type(each) for _, each in desk.sent] == [Hello] * 20
    assert desk.told == ["another computer is connected to this run; waiting until that has ended its part"]
    assert not desk.meeting.refused


def test_people_are_told_of_refusals_once_and_not_too_often() -> None:
    robot = Side(listens=True)
    for number in range(1000):
        robot.take(hello(manifest={**SAME, "[run] x": f"\x1b{number}"}), NOW + number * TELL_NS // 100)
    assert len(robot.told) <= 11
    assert all(text.isprintable() for text in robot.told)
    told = len(robot.told)
    for number in range(3):
        robot.take(hello(nodes=()), NOW + (100 + 2 * number) * TELL_NS)
    assert len(robot.told) == told + 1
