"""The bus: typed two-frame messages over ZeroMQ, and the same within one process."""

from servonode.bus.codec import REASONS, MessageError, decode, encode
from servonode.bus.devices import (
    clear_devices_folder,
    device_addresses,
    devices_folder,
    exposure,
    make_devices_folder,
)
from servonode.bus.interfaces import (
    BusFace,
    Identity,
    PublisherFace,
    RequestsFace,
    SubscriberFace,
    Wanted,
    subscriptions_expected,
)
from servonode.bus.ipc.publisher import Publisher
from servonode.bus.link import ExternalLink, Link, check_address
from servonode.bus.memory import MemoryBus, MemoryPublisher, MemoryRequests, MemorySubscriber, Switchboard
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
from servonode.bus.requests import Requester, Requests, decode_map, encode_map
from servonode.bus.run_folder import (
    BusError,
    RunFolder,
    RunNameTaken,
    endpoint,
    run_folder,
    run_path,
)
from servonode.bus.sockets import Bus, DirectSubscriber
from servonode.bus.zmq_subscriber import Subscriber

__all__ = [
    "LARGEST",
    "REASONS",
    "TOPICS",
    "Applied",
    "Bus",
    "BusError",
    "BusFace",
    "Command",
    "DirectSubscriber",
    "Estimate",
    "ExternalLink",
    "Identity",
    "Lifecycle",
    "Link",
    "MemoryBus",
    "MemoryPublisher",
    "MemoryRequests",
    "MemorySubscriber",
    "Message",
    "MessageError",
    "Parameters",
    "Publisher",
    "PublisherFace",
    "Report",
    "Requester",
    "Requests",
    "RequestsFace",
    "RunFolder",
    "RunNameTaken",
    "Setup",
    "State",
    "Status",
    "Subscriber",
    "SubscriberFace",
    "Switchboard",
    "Target",
    "Wanted",
    "check_address",
    "clear_devices_folder",
    "decode",
    "decode_map",
    "device_addresses",
    "devices_folder",
    "encode",
    "encode_map",
    "endpoint",
    "exposure",
    "make_devices_folder",
    "run_folder",
    "run_path",
    "subscriptions_expected",
]
