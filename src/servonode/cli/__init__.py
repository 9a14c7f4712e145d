"""The command line.

Where it is the program that was started, Ctrl-C ends it without a traceback while its modules are still loading.
"""

import os
import signal
import sys

_STARTED = sys.argv and (sys.argv[0] == "-m" or os.path.basename(sys.argv[0]) == "servonode")  # noqa: PTH119  (loads less)
if _STARTED and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def heed_interrupts() -> None:
    """From now on Ctrl-C is an exception again, for the command that is about to run."""
    if _STARTED and signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
