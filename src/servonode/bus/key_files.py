"""Files with keys, as `zmq.auth` reads and writes them: lines such as `public-key = "..."`."""

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

import zmq
import zmq.utils.z85

from servonode.errors import ServonodeError

PUBLIC, SECRET = ".key", ".key_secret"
LARGEST = 10_000  # bytes of a file; those of zmq.auth have about 500
LEAST_LIBZMQ = (4, 3, 3)  # strangers can stop earlier ones, or write into their memory (CVE-2020-15166, 2019-13132)
MOUNTS = Path("/proc/self/mountinfo")
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "fuse.sshfs", "fuse.glusterfs"}

_FIELD = re.compile(rb"""^[ \t]*(public-key|secret-key|roles)[ \t]*=[ \t]*["']?([^"'\r\n]*)""", re.MULTILINE)


class KeyFileError(ServonodeError, ValueError):
    """A key, or the folder of keys, cannot be used; the text says how to fix it."""


@dataclass(frozen=True)
class KeyFile:
    """What a file says: keys in the text form of ZeroMQ, and roles."""

    public: bytes
    secret: bytes | None = field(repr=False)
    roles: tuple[str, ...]


def check_libzmq() -> None:
    """Raise where the installed libzmq has no CURVE, or one that strangers can break."""
    if zmq.has("curve") and zmq.zmq_version_info() >= LEAST_LIBZMQ:
        return
    least = ".".join(map(str, LEAST_LIBZMQ))
    raise KeyFileError(
        f"keys need libzmq {least} or later with CURVE, and this one is {zmq.zmq_version()}"
        f"{'' if zmq.has('curve') else ' without'}; install pyzmq from PyPI, which brings it (pip install -U pyzmq)"
    )


def read_key_file(file: Path) -> KeyFile:
    """What a file says. Raises KeyFileError for any other file, caused by an OSError where it cannot be read now."""
    try:
        content = _content(file)
    except OSError as error:
        raise KeyFileError(f"{file} cannot be read ({error.strerror}); check its name and rights") from error
    said = dict(_FIELD.findall(content))
    public, secret = said.get(b"public-key"), said.get(b"secret-key")
    if public is None:
        raise KeyFileError(f"{file} is damaged (no public key); copy it again, or make a new pair")
    if not all(_is_key(each) for each in (public, secret) if each is not None):
        raise KeyFileError(f"{file} is damaged (a key in it is not valid); copy it again, or make a new pair")
    return KeyFile(public, secret, tuple(said.get(b"roles", b"").decode("ascii", "replace").split()))


def network_file_system(folder: Path) -> str:
    """The kind of network file system on which a folder is; empty: it is on none that is known."""
    try:
        device = folder.stat().st_dev
        mounts = MOUNTS.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for place, _, mounted in (line.partition(" - ") for line in mounts):
        kind = mounted.partition(" ")[0]
        if kind in NETWORK and place.split()[2] == f"{os.major(device)}:{os.minor(device)}":
            return kind
    return ""


def exposed(found: os.stat_result) -> str:
    """What is wrong with a file that is to hold a secret of ours; empty: nothing."""
    if not stat.S_ISREG(found.st_mode):
        return "is a link" if stat.S_ISLNK(found.st_mode) else "is a pipe, a device or a folder"
    if found.st_uid != os.getuid():
        return f"belongs to another user (id {found.st_uid})"
    return f"can be read by others (mode {stat.S_IMODE(found.st_mode):04o})" if found.st_mode & 0o077 else ""


def _content(file: Path) -> bytes:
    """The bytes of a key file, which is opened once, so that it cannot become another one meanwhile."""
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # else a pipe would wait for its writer
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise KeyFileError(f"{file} is not a key file; take the NAME{PUBLIC} that servonode keys new has made")
        return os.read(opened, LARGEST)
    finally:
        os.close(opened)


def _is_key(key: bytes) -> bool:
    """Whether this is a key in ZeroMQ's text form."""
    try:
        return len(key) == 40 and len(zmq.utils.z85.decode(key)) == 32
    except Exception:  # noqa: BLE001 - the decoder raises KeyError, struct.error or ValueError
        return False
