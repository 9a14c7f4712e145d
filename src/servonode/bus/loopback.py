"""Addresses that only this computer can reach: what is bound without keys may be bound nowhere else."""

import re

_TCP = re.compile(r"tcp://(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{1,5}))?")


def port_of(address: str) -> int | None:
    """The port of a tcp address of this computer alone; 0 where it has none that can be used, None for any other."""
    found = _TCP.fullmatch(address)
    if not found:
        return None
    port = int(found[1] or 0)
    return port if port <= 65535 else 0


def check_telemetry(address: str) -> str | None:
    """Why telemetry cannot be published at an address, in one sentence with the remedy; None for a usable one."""
    port = port_of(address)
    if port:
        return None
    if port == 0:
        return f"{address!r} has no usable port; take one from 1024 to 65535, as in tcp://127.0.0.1:9872"
    if address.startswith("tcp://"):
        return (
            f"{address!r} may be reached from other computers, and this link has no keys yet; take "
            "tcp://127.0.0.1:9872, and on the other computer: ssh -L 9872:127.0.0.1:9872 USER@THIS_COMPUTER"
        )
    return f"{address!r} is not an address; take tcp://127.0.0.1:PORT or tcp://[::1]:PORT"
