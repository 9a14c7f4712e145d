"""The common parts of the bridges: threads beside the one that publishes, and the emergency stop."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from servonode.bus import BusError
from servonode.errors import ServonodeError
from servonode.operator.operator_requests import stop_all

ENDED = "the run has ended"

log = logging.getLogger(__name__)


class NoGraph(ServonodeError):
    """Cyclone DDS cannot take part in the domain of ROS 2; the text says what it needs."""


@contextmanager
def beside(*works: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Do each of these again and again in a thread of its own; what is given raises the error that one ended with."""
    ended, errors = threading.Event(), list[Exception]()

    def repeat(work: Callable[[], None]) -> None:
        try:
            while not ended.is_set():
                work()
        except Exception as error:  # noqa: BLE001  (of a thread: it is raised where it is seen)
            errors.append(error)

    def check() -> None:
        if errors:
            raise errors[0]

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield check
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def stop_run(folder: str, service: str) -> tuple[bool, str]:
    """Stop the run in this folder, as `service` asks for: whether its plant has confirmed that, and what to show."""
    try:
        stops, unknown = stop_all([folder])
    except (BusError, OSError) as error:
        return False, str(error)
    texts = [f"{each.run}: {each.lifecycle if each.confirmed else each.text}" for each in stops]
    text = "; ".join([*texts, *[ENDED] * len(unknown)])
    log.warning("emergency stop from %s: %s", service, text)
    return bool(stops) and not unknown and all(each.confirmed for each in stops), text
