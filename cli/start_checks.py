"""What a run needs of the process that starts it, found out before anything else is done."""

import resource
import sys
from collections.abc import Sequence

from servonode.errors import ServonodeError
from servonode.nodes.terminal import STANDARD

LEAST_DESCRIPTORS = 128  # of one process: a plant needs some 40, and some for every listener


class StartError(ServonodeError, ValueError):
    """A run cannot be started like this; the text says how it can."""


def check_descriptors(closed: Sequence[int], as_json: bool) -> None:
    """Refuse a process that may open too few files; raise its limit to what it is allowed.

    closed: standard descriptors that were closed, which is told; it is refused where the result was to go there.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < LEAST_DESCRIPTORS:
        mend = f"raise it: ulimit -n {LEAST_DESCRIPTORS}"
        raise StartError(f"this process may open {hard} files, a run needs {LEAST_DESCRIPTORS}; {mend}")
    if soft != resource.RLIM_INFINITY and soft < LEAST_DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if 1 in closed and as_json:
        raise StartError("standard output is closed, so --json has nowhere to go; redirect it: > FILE")
    for descriptor in closed:
        sys.stderr.write(f"servonode: {STANDARD[descriptor]} is closed; /dev/null stands in for it\n")
