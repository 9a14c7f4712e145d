"""`servonode hil accept` for firmware with its own law: it must act only with a goal, and within the limits."""

from typing import Any

from msgspec.structs import asdict

from servonode.acceptance.hil_accept_safe import MOST
from servonode.acceptance.protocol_check import TINY
from servonode.acceptance.protocol_host import Host
from servonode.plants.drivers.applied_inputs import AppliedNearGoal
from servonode.plants.drivers.link_watch import CLIPPED, LAW
from servonode.plants.drivers.packet_link import PacketLink

NEAR = 1e-3  # relative excess by rounding


def judge_law(host: Host, link: PacketLink, goal: list[float], seconds: float) -> str:
    """What is wrong with the law of firmware, in a run that has just begun under limits of MOST; empty: nothing.

    goal: a valid goal; seconds: the time allowed for each effect.
    """

    def follow() -> None:
        at = host.samples[-1].state.k
        message = AppliedNearGoal(**asdict(host.applied(0.0)), goal=[float(at), 0.0, *goal])
        host.sent.append((message.seq, message.mono))
        link.send("applied", message)

    def decided() -> bool:
        return _says(host, LAW) or _says(host, CLIPPED)

    host.drive(TINY, seconds, lambda: decided())
    if decided():
        return "acts though no packet had a goal; let it act only while bit 1 of the newest applied is set"
    if not host.listen(seconds, decided, follow, host.period):
        return "does not act though packets have a goal; call it at each control instant, and say so in the states"
    begun = host.clock()
    host.listen(seconds, each=follow, every=host.period)
    acting = [u for each in host.samples if each.at >= begun for u in each.state.input.values()]
    if not acting or max(map(abs, acting)) > MOST * (1 + NEAR):
        return f"acts beyond a limit of {MOST:g}; clamp what it asks for as all inputs"
    host.drive(0.0, seconds)
    if decided() or any(abs(u) > 0.1 * TINY for u in host.samples[-1].state.input.values()):
        return "acts on when packets have no goal any more; let the host's inputs act then as they are"
    return ""


def _says(host: Host, name: str) -> bool:
    extra: Any = host.samples[-1].state.extra if host.samples else None
    return isinstance(extra, dict) and bool(extra.get(name))
