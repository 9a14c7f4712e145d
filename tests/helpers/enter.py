"""Has a command run on a computer of a test: python enter.py PID FOLDER COMMAND ...

PID: a process in the computer's namespaces. What interrupts its process group interrupts the command, which this one
waits for, to end with its exit code.
"""

import ctypes
import os
import signal
import sys

SPACES = ("uts", "net", "mnt", "time", "pid")


def main(pid: str, folder: str, *command: str) -> int:
    """The command's exit code; 128 and the number of the signal that ended it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for space in [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in SPACES]:
        if libc.setns(space, 0):
            raise OSError(ctypes.get_errno(), f"the namespaces of process {pid} cannot be entered")
    os.chdir(folder)
    child = os.fork()  # only a child has the other numbers of processes
    if not child:
        os.execvp(command[0], command)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
