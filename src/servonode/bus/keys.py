"""The keys of this computer, and those of others that it trusts, in files that `zmq.auth` reads and writes.

A folder of mode 0700 holds pairs of our own, NAME.key and NAME.key_secret, and the folder `trusted` with a public key
NAME.key of each other computer, whose metadata state its roles.
"""

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import zmq
import zmq.auth
import zmq.utils.z85

from servonode.bus.run_folder import distrust
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.errors import ServonodeError

KEYS = "SERVONODE_KEYS"  # names the folder of keys itself
ROLES = {  # what a key may be trusted for; none includes another
    "observe": "receive what a run on two computers publishes",
    "operate": "arm, stop and reset a run on two computers",
    "plant": "be the machine of a run that names the key, or run the plant of a run on two computers",
    "controller": "command a machine, whose program is given the key's file, or run the controller and the target of a "
    "run on two computers",
}
OPERATE, OBSERVE = "operate", "observe"
ROLE_OF = {PLANT: "plant", CONTROLLER: "controller", TARGET: "controller"}  # to publish as a node
MOST = 32  # trusted keys, because a plant reads them between two steps when one has changed
SETTLE_NS = 50_000_000  # for so long a folder may change again without a sign: its time is that of a tick of the system

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_TRUSTED = """\
#   Public key of another computer, trusted by this one. Written by servonode keys trust.
metadata
    roles = {roles}
curve
    public-key = "{public}"
"""
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


@dataclass(frozen=True)
class Pair:
    """A key pair of our own, in the text form of ZeroMQ."""

    name: str
    public: bytes
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class TrustedKey:
    """The public key of another computer, in the text form of ZeroMQ, and its roles."""

    name: str
    public: bytes
    roles: tuple[str, ...]


def keys_folder() -> Path:
    """The folder of keys: SERVONODE_KEYS, else below XDG_CONFIG_HOME."""
    chosen = os.environ.get(KEYS, "")
    if chosen:
        if not chosen.startswith("/"):
            raise KeyFileError(f"{KEYS}: {chosen} is not an absolute path; set it to a folder of yours, or unset it")
        return Path(chosen)
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(config) if config.startswith("/") else Path.home() / ".config") / "servonode" / "keys"


class KeyStore:
    """The keys in a folder, which is made by the first one; by default that of this user."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or keys_folder()
        self.damaged: dict[str, str] = {}  # files of trusted keys that cannot be used, with the reason
        self._trusted = self.folder / "trusted"
        self._keys: dict[bytes, TrustedKey] = {}
        self._stamp: object = None  # of the folder when it was last looked at
        self._settled_ns = 0  # the time from which on every change has another stamp
        self._stale = False  # whether to read again although the stamp is the same

    def new(self, name: str) -> Path:
        """Make a key pair; the file of its public key, which is for others."""
        _check_name(name)
        check_libzmq()
        with self._changing() as draft:
            public, secret = (self.folder / f"{name}{ending}" for ending in (PUBLIC, SECRET))
            if secret.exists():
                raise KeyFileError(f"key {name!r} exists already ({secret}); take another name, or remove its files")
            for made, mode in zip(zmq.auth.create_certificates(draft, name), (0o644, 0o600), strict=True):
                Path(made).chmod(mode)
            (draft / public.name).replace(public)
            (draft / secret.name).replace(secret)  # the last step: a pair is there once its secret is
        return public

    def pair_names(self) -> list[str]:
        """The names of our own pairs."""
        self._check_folder()
        return sorted(each.name.removesuffix(SECRET) for each in self.folder.glob(f"*{SECRET}"))

    def pair(self, name: str = "") -> Pair:
        """The pair of this name; without one, the only pair that there is."""
        check_libzmq()
        self._check_place()
        names = self.pair_names()
        if not name and len(names) > 1:
            raise KeyFileError(f"{self.folder} holds several key pairs ({', '.join(names)}); say which with --key NAME")
        if not names or (name and name not in names):
            missing = f"there is no key pair {name!r}" if name else "there is no key pair"
            raise KeyFileError(f"{missing} in {self.folder}; make one with servonode keys new {name or 'NAME'}")
        file = self.folder / f"{name or names[0]}{SECRET}"
        if text := exposed(found := file.lstat()):
            known = "make a new pair, because that one may be known"
            raise KeyFileError(
                f"{file} {text}; {known if stat.S_ISREG(found.st_mode) else 'put the file itself there'}"
            )
        read = read_key_file(file)
        if read.secret is None or zmq.curve_public(read.secret) != read.public:
            raise KeyFileError(f"{file} is damaged (it is no pair of keys); remove it and make a new pair")
        return Pair(name or names[0], read.public, read.secret)

    def trust(self, file: Path, roles: Sequence[str]) -> TrustedKey:
        """Trust the public key in a file, under the file's name, for these roles and no others."""
        unknown = [role for role in roles if role not in ROLES]
        if unknown:
            raise KeyFileError(f"role {unknown[0]!r} is unknown; choose {', '.join(ROLES)}")
        if not roles:
            raise KeyFileError(f"say what the key may do: --role {' or --role '.join(ROLES)}")
        name = file.name.removesuffix(SECRET).removesuffix(PUBLIC)
        _check_name(name)
        read = read_key_file(file)
        if read.secret is not None:
            raise KeyFileError(
                f"{file} holds a secret key, which must not leave its computer; take {name}{PUBLIC} from there, "
                "and make a new pair if the secret was sent over a network"
            )
        kept = TrustedKey(name, read.public, tuple(role for role in ROLES if role in roles))
        with self._changing() as draft:
            self._check_new(file, kept)
            made = draft / f"{name}{PUBLIC}"
            made.write_text(_TRUSTED.format(roles=" ".join(kept.roles), public=kept.public.decode()), "ascii")
            made.replace(self._trusted / made.name)
        return kept

    def revoke(self, name: str) -> None:
        """Trust this key no more; a damaged file can be revoked too."""
        _check_name(name)
        with self._changing():
            try:
                (self._trusted / f"{name}{PUBLIC}").unlink()
            except FileNotFoundError:
                known = ", ".join(key.name for key in self.trusted().values()) or "none"
                raise KeyFileError(f"no key is trusted as {name!r}; trusted: {known}") from None

    def trusted(self) -> dict[bytes, TrustedKey]:
        """The trusted keys by public key, read again if the folder has changed; none where others could change it.

        Two calls of the system tell whether it has, so it may be asked for every connection.
        """
        stamp = self._look()
        now = time.monotonic_ns()
        if stamp != self._stamp:
            self._stamp, self._settled_ns, self._stale = stamp, now + SETTLE_NS, True
        if self._stale:
            self._keys, self.damaged, complete = self._read_trusted() if stamp else ({}, {}, True)
            self._stale = now < self._settled_ns or not complete
        return self._keys

    def trusted_as(self, name: str) -> TrustedKey | None:
        """The trusted key of this name."""
        return next((key for key in self.trusted().values() if key.name == name), None)

    def problem_of(self, name: str) -> str:
        """Why the file of this trusted key cannot be used, with the remedy; empty: it can, or no file has it."""
        try:
            self._check_folder()
        except (KeyFileError, OSError) as error:
            return str(error)
        return self.damaged.get(f"{name}{PUBLIC}") or self.damaged.get(self._trusted.name, "")

    def _check_new(self, file: Path, key: TrustedKey) -> None:
        """Raise where another key has this name, or this key another name."""
        others = self.trusted()
        if len(others) >= MOST and key.public not in others:
            raise KeyFileError(f"{len(others)} keys are trusted already, the most that can be; first revoke one")
        for other in others.values():
            if other.name == key.name and other.public != key.public:
                text = f"another key is trusted as {key.name!r} already; first servonode keys revoke {key.name}"
                raise KeyFileError(f"{file}: {text}, or name the file otherwise")
            if other.public == key.public and other.name != key.name:
                text = f"this key is trusted already as {other.name!r}; first servonode keys revoke {other.name}"
                raise KeyFileError(f"{file}: {text}, or use that name")

    def _look(self) -> object:
        """What changes when a file of a trusted key does; None: there is no folder, or it is open to others."""
        try:
            found = (self.folder.lstat(), self._trusted.lstat())
        except OSError:
            return None
        if any(each.st_uid != os.getuid() or stat.S_IMODE(each.st_mode) & 0o077 for each in found):
            return None
        return tuple((each.st_ino, each.st_mode, each.st_mtime_ns) for each in found)

    def _read_trusted(self) -> tuple[dict[bytes, TrustedKey], dict[str, str], bool]:
        """The trusted keys, the files that cannot be used, and whether these are that way for good."""
        keys: dict[bytes, TrustedKey] = {}
        damaged: dict[str, str] = {}
        complete = True
        try:
            files = sorted(each for each in self._trusted.iterdir() if each.suffix == PUBLIC)
        except OSError as error:  # such as no free descriptor
            return {}, {self._trusted.name: f"{self._trusted} cannot be read ({error.strerror})"}, False
        for number, file in enumerate(files):
            try:
                if number >= MOST:
                    raise KeyFileError(f"{file} is not read, because {MOST} others are trusted; remove some")
                key = _read_trusted(file)
                if key.public in keys:
                    raise KeyFileError(f"{file} holds the key of {keys[key.public].name!r} again; remove one of them")
                keys[key.public] = key
            except KeyFileError as error:
                damaged[file.name] = str(error)
                complete = complete and not isinstance(error.__cause__, OSError)
        return keys, damaged, complete

    def _check_folder(self) -> None:
        """Raise where another user could read or write the folder."""
        for folder in (self.folder, self._trusted):
            if folder.exists() and (problem := distrust(folder, (os.getuid(),))):
                raise KeyFileError(f"{folder} {problem}; keys need a folder of yours with mode 0700 (chmod 700)")

    def _check_place(self) -> None:
        """Raise where a network carries the folder: it shows secret keys, and a plant may have to wait for it."""
        if kind := network_file_system(self.folder):
            raise KeyFileError(
                f"{self.folder} is on a network file system ({kind}), which can stall a plant and shows secret keys to "
                f"others; set {KEYS} to a folder of this computer"
            )

    @contextmanager
    def _changing(self) -> Iterator[Path]:
        """A folder for drafts, while no other process changes the keys; makes the folders of keys."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.folder, self._trusted):
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
        self._check_folder()
        self._check_place()
        lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            draft = Path(tempfile.mkdtemp(prefix=".draft", dir=self.folder))  # 0700
            try:
                yield draft
            finally:
                shutil.rmtree(draft)
        finally:
            os.close(lock)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise KeyFileError(f"name {name[:50]!r} is not usable for a key; take 1 to 40 of letters, digits, - and _")


def _read_trusted(file: Path) -> TrustedKey:
    """A trusted key with its roles; KeyFileError for anything that servonode has not written."""
    name = file.name.removesuffix(PUBLIC)
    _check_name(name)
    read = read_key_file(file)
    if read.secret is not None or not read.roles or not set(read.roles) <= ROLES.keys():
        raise KeyFileError(f"{file} is damaged (no roles, or a secret); revoke it, then trust the key again")
    return TrustedKey(name, read.public, read.roles)
