"""What dask runs in each worker of a cluster on this computer when it begins: the client speaks for all of them."""

import logging
import signal


def dask_setup(_: object) -> None:
    """Leave Ctrl-C to the client, which closes the cluster, and say nothing of what it reports or dask repairs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)
