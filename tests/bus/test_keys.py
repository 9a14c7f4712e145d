"""The folder of keys: files that zmq.auth reads, their modes, what is refused and with which words."""

import errno
import os
import re
import stat
from pathlib import Path

import pytest
import zmq.auth

from servonode.bus import keys
from servonode.bus.keys import LARGEST, KeyFileError, KeyStore, keys_folder, read_key_file
from tests.helpers.descriptors import no_free_descriptor


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "keys")


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    """The public key of another computer."""
    return KeyStore(tmp_path / "other").new("robot")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_pair_is_private_and_what_zmq_auth_reads(store: KeyStore) -> None:
    old = os.umask(0)
    try:
        public = store.new("desk")
    finally:
        os.umask(old)
    secret = public.with_suffix(".key_secret")
    assert (mode(store.folder), mode(store.folder / "trusted"), mode(secret)) == (0o700, 0o700, 0o600)
    pair = store.pair()
    assert zmq.auth.load_certificate(secret) == (pair.public, pair.secret)
    assert zmq.auth.load_certificate(public) == (pair.public, None)
    assert pair.secret.decode() not in repr(pair)
    assert sorted(each.name for each in store.folder.iterdir()) == ["desk.key", "desk.key_secret", "trusted"]


def test_trust_sets_roles_and_revoke_ends_it_in_stores_that_are_open(
    store: KeyStore, robot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "SETTLE_NS", 0)
    reader = KeyStore(store.folder)
    assert reader.trusted() == {}
    key = store.trust(robot, ["plant"])
    assert (key.name, key.roles, reader.trusted()) == ("robot", ("plant",), {key.public: key})
    assert zmq.auth.load_certificates(store.folder / "trusted") == {key.public: True}
    assert store.trust(robot, ["controller", "plant"]).roles == ("plant", "controller")
    assert [each.roles for each in reader.trusted().values()] == [("plant", "controller")]
    store.revoke("robot")
    assert reader.trusted() == {}


def test_a_change_within_one_tick_of_the_file_system_is_seen(
    store: KeyStore, robot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "SETTLE_NS", 60 * 10**9)
    folder = store.folder / "trusted"
    store.trust(robot, ["plant"])
    reader = KeyStore(store.folder)
    assert reader.trusted()
    before = [(each, each.stat()) for each in (store.folder, folder)]
    store.revoke("robot")
    for each, found in before:
        os.utime(each, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert reader.trusted() == {}


def test_an_unchanged_folder_is_read_once(store: KeyStore, robot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "SETTLE_NS", 0)
    store.trust(robot, ["plant"])
    reader = KeyStore(store.folder)
    read = []
    monkeypatch.setattr(keys, "read_key_file", lambda file: read.append(file) or read_key_file(file))
    assert [len(reader.trusted()) for _ in range(5)] == [1] * 5
    assert read == [store.folder / "trusted" / "robot.key"]


def test_without_a_free_descriptor_no_key_is_trusted_until_there_is_one(
    store: KeyStore, robot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "SETTLE_NS", 0)
    key = store.trust(robot, ["plant"])
    reader = KeyStore(store.folder)
    with no_free_descriptor():
        assert reader.trusted() == {}
        assert "trusted cannot be read (Too many open files)" in reader.problem_of("robot")
    assert reader.trusted() == {key.public: key}


def test_a_file_that_cannot_be_read_now_is_read_again(
    store: KeyStore, robot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "SETTLE_NS", 0)
    key = store.trust(robot, ["plant"])
    reader = KeyStore(store.folder)

    def fails(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(keys.os, "open", fails)
        assert reader.trusted() == {}
        assert "robot.key cannot be read (Input/output error)" in reader.problem_of("robot")
    assert reader.trusted() == {key.public: key}
    assert reader.problem_of("robot") == ""


def test_so_many_keys_are_trusted_and_no_more(store: KeyStore, robot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MOST", 1)
    store.trust(robot, ["plant"])
    store.trust(robot, ["controller"])  # the same one again
    other = KeyStore(store.folder.parent / "third").new("third")
    with pytest.raises(KeyFileError, match=r"1 keys are trusted already, the most that can be; first revoke one"):
        store.trust(other, ["plant"])
    elsewhere = KeyStore(store.folder.parent / "elsewhere")
    elsewhere.trust(other, ["plant"])
    (store.folder / "trusted" / "third.key").write_bytes((elsewhere.folder / "trusted" / "third.key").read_bytes())
    reader = KeyStore(store.folder)
    assert [each.name for each in reader.trusted().values()] == ["robot"]
    assert "is not read, because 1 others are trusted" in reader.damaged["third.key"]


def test_a_folder_on_a_network_file_system_has_no_keys(
    store: KeyStore, robot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.new("desk")
    device = store.folder.stat().st_dev
    place = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(keys, "MOUNTS", mounts)
    mounts.write_text(f"22 27 0:99999 / /far rw - nfs4 server:/ rw\n27 1 {place} / / rw,relatime - ext4 /dev/vda rw\n")
    assert store.pair().name == "desk"
    mounts.write_text(f"27 1 {place} / / rw,relatime shared:1 - nfs4 server:/home rw\n")
    for use in (store.pair, lambda: store.new("more"), lambda: store.trust(robot, ["plant"])):
        with pytest.raises(KeyFileError, match=r"on a network file system \(nfs4\), .* set SERVONODE_KEYS to a folder"):
            use()


@pytest.mark.parametrize(("version", "curve"), [((4, 3, 2), True), ((4, 3, 5), False)])
def test_a_libzmq_that_strangers_can_break_is_refused(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], curve: bool
) -> None:
    monkeypatch.setattr(zmq, "zmq_version_info", lambda: version)
    monkeypatch.setattr(zmq, "has", lambda _: curve)
    for use in (store.pair, lambda: store.new("desk")):
        with pytest.raises(KeyFileError, match=r"keys need libzmq 4\.3\.3 or later with CURVE, .*pip install -U pyzmq"):
            use()


def test_a_folder_that_others_can_enter_has_no_keys(store: KeyStore, robot: Path) -> None:
    store.new("desk")
    store.trust(robot, ["plant"])
    assert store.trusted()
    store.folder.chmod(0o750)
    assert store.trusted() == {}
    for use in (store.pair, store.pair_names, lambda: store.new("more"), lambda: store.trust(robot, ["plant"])):
        with pytest.raises(KeyFileError, match=r"has mode 0750, open to others; keys need .* mode 0700"):
            use()
    store.folder.chmod(0o700)
    assert store.trusted()
    (store.folder / "desk.key_secret").chmod(0o640)
    with pytest.raises(KeyFileError, match=r"desk.key_secret can be read by others \(mode 0640\)"):
        store.pair()
    secret = store.folder / "desk.key_secret"
    secret.rename(store.folder / "elsewhere")
    for make, text in ((lambda: secret.symlink_to("elsewhere"), "is a link"), (lambda: os.mkfifo(secret), "is a pipe")):
        make()
        with pytest.raises(KeyFileError, match=f"desk.key_secret {text}.*; put the file itself there"):
            store.pair()
        secret.unlink()


def test_a_damaged_trusted_key_is_not_trusted_and_can_be_revoked(store: KeyStore, robot: Path) -> None:
    other = KeyStore(store.folder.parent / "third").new("desk2")
    kept = store.trust(other, ["plant"])
    store.trust(robot, ["plant"])
    file = store.folder / "trusted" / "robot.key"
    good = file.read_bytes()
    for bad in (b"", good[:-30], good.replace(b"plant", b"king"), good.replace(b"plant", b""), b"\xff" * 300,
                good + b'    secret-key = "' + b"0" * 40 + b'"\n', b"#" * LARGEST + good):  # fmt: skip
        draft = store.folder / "draft"
        draft.write_bytes(bad)
        draft.replace(file)
        assert list(store.trusted().values()) == [kept], bad
        assert list(store.damaged) == ["robot.key"]
    store.revoke("robot")
    assert store.trusted() == {kept.public: kept}
    assert store.damaged == {}


def test_a_file_with_a_name_that_no_key_can_have_is_not_trusted(store: KeyStore, robot: Path) -> None:
    kept = store.trust(robot, ["plant"])
    file = store.folder / "trusted" / "robot.key"
    for name in (b"a robot.key", b"r\xff.key", b"x" * 41 + b".key"):
        file = file.rename(file.with_name(os.fsdecode(name)))
        assert store.trusted() == {}
        (text,) = store.damaged.values()
        assert "is not usable for a key; take 1 to 40 of letters" in text
    file.rename(file.with_name("robot.key"))
    assert store.trusted() == {kept.public: kept}


def test_a_pair_that_does_not_fit_together_is_refused(store: KeyStore) -> None:
    public = store.new("desk")
    secret = public.with_suffix(".key_secret")
    (wrong,) = re.findall(rb'secret-key = "(.*)"', KeyStore(store.folder.parent / "x").new("a").with_suffix(
        ".key_secret").read_bytes())  # fmt: skip
    secret.write_bytes(re.sub(rb'secret-key = ".*"', b'secret-key = "' + wrong + b'"', secret.read_bytes()))
    with pytest.raises(KeyFileError, match=r"damaged \(it is no pair of keys\); remove it and make a new pair"):
        store.pair()


def test_what_is_refused_says_what_to_do(store: KeyStore, robot: Path, tmp_path: Path) -> None:
    def refused(text: str, use) -> None:
        with pytest.raises(KeyFileError) as caught:
            use()
        assert text in str(caught.value)
        assert caught.value.exit_code == 2

    refused("make one with servonode keys new NAME", store.pair)
    store.new("desk")
    refused("key 'desk' exists already", lambda: store.new("desk"))
    refused("make one with servonode keys new robot", lambda: store.pair("robot"))
    store.new("lab")
    refused("several key pairs (desk, lab); say which with --key NAME", store.pair)
    for name in ("", "a b", "../x", "ü", "a" * 41):
        refused("take 1 to 40 of letters, digits, - and _", lambda name=name: store.new(name))
    refused("holds a secret key, which must not leave its computer; take robot.key",
            lambda: store.trust(robot.with_suffix(".key_secret"), ["plant"]))  # fmt: skip
    disguised = tmp_path / "clean.key"
    disguised.write_bytes(robot.with_suffix(".key_secret").read_bytes())
    refused("holds a secret key", lambda: store.trust(disguised, ["plant"]))
    refused("role 'king' is unknown; choose observe, operate, plant, controller", lambda: store.trust(robot, ["king"]))
    refused("say what the key may do: --role observe or --role operate or --role plant", lambda: store.trust(robot, []))
    refused("cannot be read (No such file", lambda: store.trust(tmp_path / "none.key", ["plant"]))
    refused("is not a key file", lambda: store.trust(Path("/dev/zero"), ["plant"]))
    (empty := tmp_path / "empty.key").touch()
    refused("is damaged (no public key); copy it again", lambda: store.trust(empty, ["plant"]))
    store.trust(robot, ["plant"])
    again = tmp_path / "robot2.key"
    again.write_bytes(robot.read_bytes())
    refused("trusted already as 'robot'; first servonode keys revoke robot", lambda: store.trust(again, ["plant"]))
    (other := tmp_path / "o").mkdir()
    (other / "robot.key").write_bytes((store.folder / "desk.key").read_bytes())
    refused("another key is trusted as 'robot' already", lambda: store.trust(other / "robot.key", ["plant"]))
    refused("no key is trusted as 'lab'; trusted: robot", lambda: store.revoke("lab"))


def test_the_folder_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SERVONODE_KEYS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert keys_folder() == tmp_path / "servonode" / "keys"
    monkeypatch.setenv("SERVONODE_KEYS", "/somewhere")
    assert keys_folder() == Path("/somewhere")
    monkeypatch.setenv("SERVONODE_KEYS", "somewhere")
    with pytest.raises(KeyFileError, match="is not an absolute path"):
        keys_folder()
