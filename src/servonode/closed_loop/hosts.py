"""A run on two computers: the nodes of each, as [hosts] of a launch file states.

The computer whose address stands there listens, the other one connects to it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from servonode.bus.keys import ROLE_OF
from servonode.bus.link import port_of
from servonode.bus.topology import CONTROLLER, PLANT, TARGET, nodes_of
from servonode.closed_loop.key_table import key_of
from servonode.closed_loop.launch_error import KeyRefused, LaunchError, choices, naming_file, unknown
from servonode.closed_loop.launch_keys import Hosts, LaunchFile
from servonode.closed_loop.launch_text import toml_value

_ADDRESS = re.compile(r"tcp://([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.?|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")


@dataclass(frozen=True)
class Computer:
    """The part of a run that one computer has."""

    nodes: tuple[str, ...]  # that run here, in the order in which they start
    others: tuple[str, ...]  # that run on the other computer
    address: str  # tcp, of the computer that listens
    listens: bool  # whether this is that computer
    key: str  # the name under which that computer's key is trusted; empty where it listens, or if no name is known

    @property
    def others_roles(self) -> list[str]:
        """The roles that the other computer's key needs for its nodes."""
        return sorted({ROLE_OF[node] for node in self.others})

    @property
    def is_local(self) -> bool:
        """Whether only this computer can reach the address."""
        return bool(port_of(self.address))

    def check_keys(self, file: str, own_key: str) -> None:
        """Raise KeyFileError or LaunchError where the keys of the run cannot be used, or the other's is not trusted."""
        from servonode.bus.curve import Authenticator
        from servonode.bus.keys import KeyStore

        keys = Authenticator(KeyStore(), own_key)
        if self.listens:
            return
        if not self.key:
            text = f"missing: say by which name the key of {self.address} is trusted here (servonode keys list)"
            raise LaunchError(file, "hosts", "key", text)
        keys.client(self.key, *self.others_roles)


def computer(launch: LaunchFile, on: str | None) -> Computer | None:
    """The computer that listens if `on` names it, else the other one; None: the launch file has no [hosts].

    Raises:
        LaunchError: [hosts] is missing or cannot be used, or has another computer.
    """
    with naming_file(launch.file):
        check_hosts(launch)
    if launch.hosts is None:
        if on is None:
            return None
        text = f'missing, so there is no computer {on!r}; add it with plant = "tcp://HOST:7400", or leave out --on'
        raise LaunchError(launch.file, "hosts", None, text)
    given = _addresses(launch.hosts)
    address = next(iter(given.values()))
    names = host_names(address)
    listens = on is not None
    if on is not None and on.lower().strip("[]") not in names:
        text = unknown(f"{on!r} of --on is unknown", on, names)
        raise LaunchError(launch.file, "hosts", None, f"{text}, or on the other computer leave out --on")
    nodes = nodes_of(launch.controller is not None)
    there = tuple(node for node in nodes if node in given)
    rest = tuple(node for node in nodes if node not in given)
    if listens:
        return Computer(there, rest, address, listens, key="")
    host = _host(address)
    by_name = "" if _is_number(host) else host.partition(".")[0]
    return Computer(rest, there, address, listens, launch.hosts.key or by_name)


def on_one_computer(launch: LaunchFile, *nodes: str) -> bool:
    """Whether these nodes run on one computer, so that their times are those of one clock."""
    return launch.hosts is None or len({node in _addresses(launch.hosts) for node in nodes}) == 1


def check_hosts(launch: LaunchFile) -> None:
    """Raise KeyRefused where the addresses of [hosts] cannot be those of one computer, or of a node of this run."""
    if launch.hosts is None:
        return
    given, nodes = _addresses(launch.hosts), nodes_of(launch.controller is not None)
    if not given:
        text = f'names no computer; give an address to {choices(nodes)}, as in plant = "tcp://HOST:7400"'
        raise KeyRefused("hosts", None, f"{text}, or leave the section out")
    first = next(iter(given))
    for node, address in given.items():
        if node not in nodes:
            raise KeyRefused("hosts", node, "there is no [controller], so there is no such node; leave it out")
        if problem := _problem(address):
            raise KeyRefused("hosts", node, problem)
        if address != given[first]:
            text = f"{address!r} is not {given[first]!r}, the address of {first}, and a run is on two computers at most"
            raise KeyRefused("hosts", node, f"{text}; give the same address, or leave it out for the other computer")
    if launch.hosts.delay is not None and not is_networked(launch):
        text = "plant and controller are on one computer, so that no network is between them; leave it out"
        raise KeyRefused("hosts", "delay", text)


def is_networked(launch: LaunchFile) -> bool:
    """Whether plant and controller are on two computers, so that states and commands cross the network."""
    return launch.controller is not None and not on_one_computer(launch, PLANT, CONTROLLER)


def network_delay(launch: LaunchFile) -> float:
    """By how many control periods commands act later than `controller.delay`, as far as [hosts] states the delay.

    In lockstep time waits for them; what a predictor foresees is not counted.
    """
    controller, hosts, period = launch.controller, launch.hosts, launch.times.period
    if controller is None or hosts is None or hosts.delay is None or not period:
        return 0.0
    if launch.run.mode != "realtime" or controller.predictor:
        return 0.0
    return max(hosts.delay * launch.run.speed / period - controller.delay, 0.0)


def network_remark(launch: LaunchFile) -> str:
    """What a check does not know of a network between plant and controller, with the remedy; empty: nothing."""
    hosts, controller = launch.hosts, launch.controller
    if hosts is None or controller is None or not is_networked(launch):
        return ""
    if launch.run.mode != "realtime" or hosts.delay is not None or controller.predictor:
        return ""
    text = "states and commands cross the network, for how long is not stated, and no margin counts it"
    return f"{text}; give hosts.delay: in a run servonode status shows the round trip"


def host_names(address: str) -> list[str]:
    """The names that --on may give to the computer of an address: its host, and the first label of a name."""
    host = _host(address).lower()
    return [host] if _is_number(host) else list(dict.fromkeys([host, host.partition(".")[0]]))


def bind_address(address: str) -> str:
    """The address at which the computer of this address listens: with a name it is reached over all its networks.

    A computer's own name is often known to it as 127.0.1.1, at which others would not find it.
    """
    if _is_number(_host(address)) or port_of(address):
        return address
    return f"tcp://0.0.0.0:{address.rpartition(':')[2]}"


def shared_keys(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each key of a launch file that both computers must have alike, `[section] key` or `[fault] tables`, as TOML."""
    for path, value in _leaves((), table):
        section, key = ".".join(path[:-1]), path[-1]
        known = key_of(".".join(path))
        if known is None or not known.here:  # a key that concerns one computer alone may differ
            yield f"[{section}] {key}" if section else f"[{key}] tables", toml_value(value)


def _leaves(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path and the value of all in a table that is no table."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves((*path, key), value)
        else:
            yield (*path, key), value


def _addresses(hosts: Hosts) -> dict[str, str]:
    """The address of each node that has one."""
    every = {PLANT: hosts.plant, CONTROLLER: hosts.controller, TARGET: hosts.target}
    return {node: address for node, address in every.items() if address is not None}


def _problem(address: str) -> str:
    """Why a computer cannot have this address, with the remedy; empty: it can."""
    found = _ADDRESS.fullmatch(address)
    if not found:
        return (
            f"{address!r} is not the tcp address of a computer; take tcp://HOST:PORT, where HOST is its name or "
            "number, such as robot.local, 192.168.1.7 or [fd00::7], and PORT from 1024 to 65535"
        )
    if not 0 < int(found[2]) <= 65535:
        return f"{address!r} has no usable port; take one from 1024 to 65535, as in tcp://{found[1]}:7400"
    host = _host(address)
    if _is_number(host) and ip_address(host).is_unspecified:
        return (
            f"{address!r} stands for all networks of a computer, and the other computer could not connect to it; "
            "take the name or number of that computer"
        )
    if found[1].startswith("[") and not _is_number(host):
        return f"{address!r} has brackets around what is no number of IPv6; take one such as [fd00::7]"
    return ""


def _host(address: str) -> str:
    """The host of a good address, as written."""
    return address.removeprefix("tcp://").rpartition(":")[0].strip("[]").rstrip(".")


def _is_number(host: str) -> bool:
    """Whether a host is given by its number, of IPv4 or IPv6."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
