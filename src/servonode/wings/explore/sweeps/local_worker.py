"""What dask runs in each worker of a cluster on this computer when it begins: the client speaks for all of them."""

import logging
import os
import signal
import sys
from pathlib import Path


def dask_setup(_: object) -> None:
    """Leave Ctrl-C to the client, which closes the cluster, and say nothing of what it reports or dask repairs.

    A worker that begins while its cluster closes fails at that, and multiprocessing prints how.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)
    sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  (for the rest of the process)
