"""The folder of keys: files that zmq.auth reads, their modes, what is refused and with which words."""

import os
import re
import stat
from pathlib import Path

import pytest
import zmq.auth

from servonode.bus.keys import LARGEST, ROLES, KeyFileError, KeyStore, keys_folder
from servonode.bus.topology import NODES


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


def test_trust_sets_roles_and_revoke_ends_it_in_stores_that_are_open(store: KeyStore, robot: Path) -> None:
    reader = KeyStore(store.folder)
    assert reader.trusted() == {}
    key = store.trust(robot)
    assert (key.name, key.roles, reader.trusted()) == ("robot", ("observe",), {key.public: key})
    assert zmq.auth.load_certificates(store.folder / "trusted") == {key.public: True}
    assert store.trust(robot, ["controller", "plant"]).roles == ("plant", "controller")
    assert [each.roles for each in reader.trusted().values()] == [("plant", "controller")]
    store.revoke("robot")
    assert reader.trusted() == {}


def test_every_request_of_a_node_has_a_role() -> None:
    assert {verb for node in NODES.values() for verb in node.verbs} <= ROLES["operate"]
    assert ROLES["observe"] < ROLES["operate"]
    assert not ROLES["plant"] | ROLES["controller"]


def test_a_folder_that_others_can_enter_has_no_keys(store: KeyStore, robot: Path) -> None:
    store.new("desk")
    store.trust(robot)
    assert store.trusted()
    store.folder.chmod(0o750)
    assert store.trusted() == {}
    for use in (store.pair, store.pair_names, lambda: store.new("more"), lambda: store.trust(robot)):
        with pytest.raises(KeyFileError, match=r"has mode 0750, open to others; keys need .* mode 0700"):
            use()
    store.folder.chmod(0o700)
    assert store.trusted()
    (store.folder / "desk.key_secret").chmod(0o640)
    with pytest.raises(KeyFileError, match=r"desk.key_secret can be read by others \(mode 0640\)"):
        store.pair()


def test_a_damaged_trusted_key_is_not_trusted_and_can_be_revoked(store: KeyStore, robot: Path) -> None:
    other = KeyStore(store.folder.parent / "third").new("desk2")
    kept = store.trust(other)
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
            lambda: store.trust(robot.with_suffix(".key_secret")))  # fmt: skip
    disguised = tmp_path / "clean.key"
    disguised.write_bytes(robot.with_suffix(".key_secret").read_bytes())
    refused("holds a secret key", lambda: store.trust(disguised))
    refused("role 'king' is unknown; choose observe, operate, plant, controller", lambda: store.trust(robot, ["king"]))
    refused("cannot be read (No such file", lambda: store.trust(tmp_path / "none.key"))
    refused("is not a key file", lambda: store.trust(Path("/dev/zero")))
    (empty := tmp_path / "empty.key").touch()
    refused("is damaged (no public key); copy it again", lambda: store.trust(empty))
    store.trust(robot)
    again = tmp_path / "robot2.key"
    again.write_bytes(robot.read_bytes())
    refused("trusted already as 'robot'; first servonode keys revoke robot", lambda: store.trust(again))
    (other := tmp_path / "o").mkdir()
    (other / "robot.key").write_bytes((store.folder / "desk.key").read_bytes())
    refused("another key is trusted as 'robot' already", lambda: store.trust(other / "robot.key"))
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
