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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import zmq
import zmq.auth

from servonode.bus.run_folder import distrust
from servonode.errors import ServonodeError

KEYS = "SERVONODE_KEYS"  # names the folder of keys itself
PUBLIC, SECRET = ".key", ".key_secret"
LARGEST = 10_000  # bytes of a key file; those of zmq.auth have about 500
READS = {"status", "list"}
ROLES = {  # what a key may be trusted for, with the requests that it may make
    "observe": frozenset(READS),
    "operate": frozenset(
        {*READS, "arm", "disarm", "reset", "reset_estop", "reset_origin", "estop", "stop", "parameters"}
    ),
    "plant": frozenset[str](),  # it is a machine
    "controller": frozenset[str](),  # it commands a machine
}
DEFAULT_ROLES = ("observe",)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_TRUSTED = """\
#   Public key of another computer, trusted by this one. Written by servonode keys trust.
metadata
    roles = {roles}
curve
    public-key = "{public}"
"""


class KeyFileError(ServonodeError, ValueError):
    """A key, or the folder of keys, cannot be used; the text says how to fix it."""


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

    def may(self, verb: str) -> bool:
        """Whether it may make this request; the emergency stop is for everyone who is trusted."""
        return verb == "estop" or any(verb in ROLES[role] for role in self.roles)


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
        self._stamp: object = None
        self._keys: dict[bytes, TrustedKey] = {}

    def new(self, name: str) -> Path:
        """Make a key pair; the file of its public key, which is for others."""
        _check_name(name)
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
        names = self.pair_names()
        if not name and len(names) > 1:
            raise KeyFileError(f"{self.folder} holds several key pairs ({', '.join(names)}); say which with --key NAME")
        if not names or (name and name not in names):
            missing = f"there is no key pair {name!r}" if name else "there is no key pair"
            raise KeyFileError(f"{missing} in {self.folder}; make one with servonode keys new {name or 'NAME'}")
        file = self.folder / f"{name or names[0]}{SECRET}"
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise KeyFileError(
                f"{file} can be read by others (mode {stat.S_IMODE(found.st_mode):04o}) or is not yours; "
                "make a new pair, because that one may be known"
            )
        public, secret = _read_key(file)
        if secret is None or zmq.curve_public(secret) != public:
            raise KeyFileError(f"{file} is damaged (it is no pair of keys); remove it and make a new pair")
        return Pair(name or names[0], public, secret)

    def trust(self, file: Path, roles: Sequence[str] = ()) -> TrustedKey:
        """Trust the public key in a file, under the file's name, for these roles and no others."""
        unknown = [role for role in roles if role not in ROLES]
        if unknown:
            raise KeyFileError(f"role {unknown[0]!r} is unknown; choose {', '.join(ROLES)}")
        name = file.name.removesuffix(SECRET).removesuffix(PUBLIC)
        _check_name(name)
        public, secret = _read_key(file)
        if secret is not None:
            raise KeyFileError(
                f"{file} holds a secret key, which must not leave its computer; take {name}{PUBLIC} from there, "
                "and make a new pair if the secret was sent over a network"
            )
        kept = TrustedKey(name, public, tuple(role for role in ROLES if role in (roles or DEFAULT_ROLES)))
        with self._changing() as draft:
            self._check_new(file, kept)
            made = draft / f"{name}{PUBLIC}"
            made.write_text(_TRUSTED.format(roles=" ".join(kept.roles), public=public.decode()), "ascii")
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

        Two calls of the system tell whether it has, so it may be asked for every request.
        """
        stamp = self._look()
        if stamp != self._stamp or stamp is None:
            self._stamp = stamp
            self._keys, self.damaged = self._read_trusted() if stamp else ({}, {})
        return self._keys

    def trusted_as(self, name: str) -> TrustedKey | None:
        """The trusted key of this name."""
        return next((key for key in self.trusted().values() if key.name == name), None)

    def _check_new(self, file: Path, key: TrustedKey) -> None:
        """Raise where another key has this name, or this key another name."""
        for other in self.trusted().values():
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

    def _read_trusted(self) -> tuple[dict[bytes, TrustedKey], dict[str, str]]:
        keys: dict[bytes, TrustedKey] = {}
        damaged = {}
        for file in sorted(self._trusted.glob(f"*{PUBLIC}")):
            try:
                key = _read_trusted(file)
                if key.public in keys:
                    raise KeyFileError(f"{file} holds the key of {keys[key.public].name!r} again; remove one of them")
                keys[key.public] = key
            except KeyFileError as error:
                damaged[file.name] = str(error)
        return keys, damaged

    def _check_folder(self) -> None:
        """Raise where another user could read or write the folder."""
        for folder in (self.folder, self._trusted):
            if folder.exists() and (problem := distrust(folder, (os.getuid(),))):
                raise KeyFileError(f"{folder} {problem}; keys need a folder of yours with mode 0700 (chmod 700)")

    @contextmanager
    def _changing(self) -> Iterator[Path]:
        """A folder for drafts, while no other process changes the keys; makes the folders of keys."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.folder, self._trusted):
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
        self._check_folder()
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


def _read_key(file: Path) -> tuple[bytes, bytes | None]:
    """The public and secret key in a file; the second is None where it has none."""
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise KeyFileError(f"{file} is not a key file; take the NAME{PUBLIC} that servonode keys new has made")
        public, secret = zmq.auth.load_certificate(file)
    except ValueError as error:
        if isinstance(error, KeyFileError):
            raise
        raise KeyFileError(f"{file} is damaged (no public key); copy it again, or make a new pair") from None
    except OSError as error:
        raise KeyFileError(f"{file} cannot be read ({error.strerror or error}); check its name and rights") from None
    for key in (public, *([] if secret is None else [secret])):
        if not _is_key(key):
            raise KeyFileError(f"{file} is damaged (a key in it is not valid); copy it again, or make a new pair")
    return public, secret


def _is_key(key: bytes) -> bool:
    """Whether this is a key in ZeroMQ's text form."""
    try:
        return len(key) == 40 and len(zmq.utils.z85.decode(key)) == 32
    except Exception:  # noqa: BLE001 - the decoder raises KeyError, struct.error or ValueError
        return False


def _read_trusted(file: Path) -> TrustedKey:
    """A trusted key with its roles; KeyFileError for anything that servonode has not written."""
    public, secret = _read_key(file)
    stated = re.search(rb"^\s*roles\s*=\s*(.*)$", file.read_bytes(), re.MULTILINE)
    roles = tuple(stated[1].decode("ascii", "replace").split()) if stated else ()
    if secret is not None or not roles or not set(roles) <= ROLES.keys():
        raise KeyFileError(f"{file} is damaged (no roles, or a secret); revoke it, then trust the key again")
    return TrustedKey(file.name.removesuffix(PUBLIC), public, roles)
