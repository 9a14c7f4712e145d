"""The bus: typed two-frame messages over ZeroMQ, and the same within one process."""

from servonode.bus.codec import MessageError, Wanted, decode, encode, subscriptions_expected
from servonode.bus.devices import clear_devices_folder, device_addresses, devices_folder, exposure, make_devices_folder
from servonode.bus.ipc.publisher import Publisher
from servonode.bus.link import ExternalLink, Link, check_address
from servonode.bus.memory import MemoryBus, MemoryPublisher, Switchboard
from servonode.bus.messages import (
    LARGEST,
    TOPICS,
    Applied,
    Command,
    Estimate,
    Lifecycle,
    Message,
    Parameters,
    Report,
    Setup,
    State,
    Status,
    Target,
)
from servonode.bus.requests import Requester
from servonode.bus.run_folder import BusError, RunFolder, run_folder, run_path
from servonode.bus.sockets import AnySubscriber, Bus, DirectSubscriber

AnyBus = Bus | MemoryBus  # of a node
AnyPublisher = Publisher | MemoryPublisher

__all__ = [
    "LARGEST",
    "TOPICS",
    "AnyBus",
    "AnyPublisher",
    "AnySubscriber",
    "Applied",
    "Bus",
    "BusError",
    "Command",
    "DirectSubscriber",
    "Estimate",
    "ExternalLink",
    "Lifecycle",
    "Link",
    "MemoryBus",
    "Message",
    "MessageError",
    "Parameters",
    "Publisher",
    "Report",
    "Requester",
    "RunFolder",
    "Setup",
    "State",
    "Status",
    "Switchboard",
    "Target",
    "Wanted",
    "check_address",
    "clear_devices_folder",
    "decode",
    "device_addresses",
    "devices_folder",
    "encode",
    "exposure",
    "make_devices_folder",
    "run_folder",
    "run_path",
    "subscriptions_expected",
]
