"""Keys: made once, replaced without losing old seals, refused before a run when they cannot sign;
and never to be seen."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tallyman.control.seal import keys
from tallyman.control.seal.signature import Signer
from tallyman.project import Project
from tallyman.settings import Settings
from tests.seals.conftest import RAW, SealedHome, written
from tests.world.homes import INTERPRETED

PASSWORD = "correct-horse-9274"
ONE = """\
import tallyman as tm

late = tm.source("late", "data/late.jsonl", "json", key="id", schema="id string, n int")


@tm.asset(key="id")
def numbers(late):
    return late
"""


def pem(key: Ed25519PrivateKey | rsa.RSAPrivateKey, passphrase: bytes | None = None) -> bytes:
    how = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, name="keys")


@pytest.fixture(scope="module")
def small(new_shop: Callable[[], SealedHome]) -> SealedHome:
    """One run without a key and one with: the second finds everything unchanged."""
    made = new_shop()
    made.pipeline(ONE)
    made.ok("run", "--run-id", "bare")
    made.ok("keys", "init")
    made.ok("run", "--run-id", "signed")
    return made


# ---- making and replacing ---------------------------------------------------------------------


def test_a_new_private_key_is_for_its_owner_only_and_its_public_half_is_in_the_project(
    settings: Settings,
) -> None:
    made = keys.init(settings)
    place = settings.home / ".tallyman" / "keys" / "seal.pem"
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert (made.private, made.public) == (".tallyman/keys/seal.pem", f"keys/{made.key}.pub")
    [public] = keys.public_keys(settings.home).values()
    assert keys.key_id(public) == made.key
    assert sorted(p.name for p in place.parent.iterdir()) == ["seal.pem"]
    assert (settings.home / made.public).read_text().startswith("-----BEGIN PUBLIC KEY-----")


def test_a_private_key_is_never_written_over(settings: Settings) -> None:
    made = keys.init(settings)
    place = settings.home / made.private
    before = place.read_bytes()
    with pytest.raises(keys.SigningKeyExists, match=made.key):
        keys.init(settings)
    assert place.read_bytes() == before
    (settings.home / made.public).unlink()
    assert keys.init(settings) == made  # only the public half is written anew
    assert place.read_bytes() == before


def test_a_configured_place_is_where_the_key_is_made_and_kept(tmp_path: Path) -> None:
    place = tmp_path / "vault" / "deep" / "my.pem"
    settings = Settings(home=tmp_path / "project", name="keys", signing_key=place)
    settings.home.mkdir()
    first = keys.init(settings)
    second = keys.rotate(settings)
    assert first.private == second.private == str(place)
    assert sorted(p.name for p in place.parent.iterdir()) == [f"my-{first.key}.pem", "my.pem"]
    assert set(keys.public_keys(settings.home)) == {first.key, second.key}
    assert keys.known(settings).signs == second.key
    for path in place.parent.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_public_key_under_another_name_is_none(settings: Settings) -> None:
    made = keys.init(settings)
    (settings.home / made.public).rename(settings.home / "keys" / "0123456789abcdef.pub")
    (settings.home / "keys" / "junk.pub").write_text("junk")
    assert keys.public_keys(settings.home) == {}
    found = keys.known(settings)
    assert (found.signs, found.problem) == (made.key, keys.public_key_missing(made.key))


# ---- runs -------------------------------------------------------------------------------------


def test_old_seals_are_good_after_the_key_was_replaced(small: SealedHome) -> None:
    before = small.ok("verify", "signed")["signed_by"]
    new = small.ok("keys", "rotate")["key_id"]
    small.ok("run", "--run-id", "after")
    assert small.ok("verify", "signed")["signed_by"] == before
    assert small.ok("verify", "after")["signed_by"] == new != before
    assert small.ok("verify", "chain")["intact"]
    listed = small.ok("keys", "ls")
    assert {row["key_id"]: row["signs"] for row in listed["keys"]}.items() >= {
        before: False,
        new: True,
    }.items()
    assert (listed["signs"], listed["problem"]) == (new, None)


def broken_keys(folder: Path) -> dict[str, Path]:
    """A file for each way in which a key cannot sign, by what is said of it."""
    good = pem(Ed25519PrivateKey.generate())
    contents = {
        "it cannot be read: No such file or directory": None,
        "others can read it (mode 640): chmod 600": good,
        "it is not a private key in PEM format": b"-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n",
        "it is not an Ed25519 key but RSAPrivateKey": pem(rsa.generate_private_key(65537, 2048)),
        "it has a passphrase, which a run cannot ask for": pem(
            Ed25519PrivateKey.generate(), b"passphrase"
        ),
        ".pub is missing: `tallyman keys init` writes it again": good,
    }
    found = {}
    for number, (why, content) in enumerate(contents.items()):
        found[why] = folder / f"{number}.pem"
        if content is not None:
            found[why].write_bytes(content)
            found[why].chmod(0o640 if "chmod" in why else 0o600)
    return found


def test_a_key_that_cannot_sign_is_found_before_anything_begins(
    small: SealedHome, tmp_path: Path
) -> None:
    before = small.sql("SELECT count(*) FROM runs"), sorted(os.listdir(small.path / "runs"))
    for why, path in broken_keys(tmp_path).items():
        reply = small.tallyman("run", "--force", TALLYMAN_SIGNING_KEY=str(path))
        assert (reply.code, reply.json["error"]["code"]) == (2, "signing_key_unusable"), why
        assert why in reply.json["error"]["message"]
        assert "PRIVATE KEY" not in str(reply.json) + reply.stderr
    after = small.sql("SELECT count(*) FROM runs"), sorted(os.listdir(small.path / "runs"))
    assert after == before
    assert small.ok("runs")  # to look needs no key


def test_without_its_key_a_project_whose_seals_are_signed_does_not_run(small: SealedHome) -> None:
    private = small.path / ".tallyman" / "keys" / "seal.pem"
    with written(private, None):
        reply = small.tallyman("run")
        assert small.ok("verify", "signed")["verified"]
    private.chmod(0o600)
    assert (reply.code, reply.json["error"]["code"]) == (2, "signing_key_unusable")
    assert "signed since no. 2" in reply.json["error"]["message"]


def test_what_expires_or_is_decided_waits_for_somebody_who_has_the_key(
    new_shop: Callable[[], SealedHome],
) -> None:
    """Both write the report anew, and so a seal."""
    shop = new_shop()
    shop.pipeline(ONE.replace('key="id")\ndef', 'key="id", approval=tm.approval("well?"))\ndef'))
    shop.ok("keys", "init")
    waiting = shop.tallyman("run", "--run-id", "asks")
    assert waiting.json["status"] == "waiting_approval", str(waiting)
    private = shop.path / ".tallyman" / "keys" / "seal.pem"
    with written(private, None):
        refused = shop.tallyman("approve", "asks", "numbers")
        assert (refused.code, refused.json["error"]["code"]) == (2, "signing_key_unusable")
        shop.sql("UPDATE approvals SET timeout_at = now() - interval '1 s'")
        assert [run["status"] for run in shop.ok("runs")] == ["waiting_approval"]
        assert shop.ok("verify", "asks")["seal"]["ordinal"] == 1
    private.chmod(0o600)
    assert [run["status"] for run in shop.ok("runs")] == ["failed"]
    assert shop.ok("verify", "asks")["seal"]["ordinal"] == 2
    chain = shop.ok("verify", "chain")
    assert (chain["intact"], chain["signed"]) == (True, 2)


def test_a_key_that_was_made_while_a_run_was_at_work_signs_it(settings: Settings) -> None:
    """Else it would be a link without a signature behind those that have one."""
    begun = Signer(settings, keys.private_key(settings))
    assert begun.key is None
    made = keys.init(settings)
    key = begun._now()
    assert key is not None
    assert keys.key_id(key.public_key()) == made.key
    checked = Signer(settings, key)
    os.unlink(settings.home / made.private)
    assert checked._now() is key  # and one that was lost meanwhile was seen when it began


# ---- settings and secrets ---------------------------------------------------------------------


def test_the_setting_is_a_path_and_the_environment_wins(small: SealedHome, tmp_path: Path) -> None:
    file = small.path / "tallyman.yaml"
    text = file.read_text()
    with written(file, (text + "signing_key: sub/key.pem\n").encode()):
        assert Project.open(small.path).settings.signing_key == small.path / "sub/key.pem"
        listed = small.ok("keys", "ls", TALLYMAN_SIGNING_KEY=str(tmp_path / "x.pem"))
        assert listed["private_key"] == str(tmp_path / "x.pem")
    key = pem(Ed25519PrivateKey.generate()).decode()
    pasted = json.dumps({"signing_key": key})[1:-1]
    with written(file, f"{text}{pasted}\n".encode()):
        reply = small.tallyman("keys", "ls")
    assert (reply.code, reply.json["error"]["code"]) == (2, "usage_error")
    assert key.splitlines()[1] not in str(reply.json) + reply.stderr


def test_no_file_but_the_key_holds_the_key_and_no_run_holds_a_password(
    tmp_path: Path, spark_server: str, with_database: Callable[[Path], Path]
) -> None:
    # With a server of its own: the files of the database are searched as well.
    secret = f'  spark.hadoop.fs.s3a.secret.key: "{PASSWORD}"\n'
    settings = f"name: shop\nmaster: {spark_server}\n{INTERPRETED}{secret}"
    (tmp_path / "tallyman.yaml").write_text(settings)
    with_database(tmp_path)
    shop = SealedHome(tmp_path).pipeline(ONE).late(1, 2)
    (tmp_path / "data" / "raw.jsonl").write_text(RAW)
    made = shop.ok("keys", "init")
    asked = (("run", "--run-id", "r"), ("verify", "r"), ("verify", "chain"), ("keys", "ls"))
    said = [json.dumps(made), *(json.dumps(shop.ok(*words)) for words in asked)]
    with Project.open(shop.path) as project:
        key = keys.private_key(project.settings)
        said += [repr(key), repr(Signer(project.settings, key)), repr(project.settings)]
    private = shop.path / made["private_key"]
    body = b"".join(private.read_bytes().splitlines()[1:-1])
    assert len(body) == 64
    files = [path for path in shop.path.rglob("*") if path.is_file()]
    holding = {str(p.relative_to(shop.path)) for p in files if body in p.read_bytes()}
    assert holding == {made["private_key"]}
    assert body.decode() not in "".join(said)
    run = [path for path in shop.folder("r").rglob("*") if path.is_file()]
    assert {"seal.json", "manifest.json", "config.json"} <= {path.name for path in run}
    assert [path.name for path in run if PASSWORD.encode() in path.read_bytes()] == []
    assert [
        str(path.relative_to(shop.path)) for path in files if PASSWORD.encode() in path.read_bytes()
    ] == ["tallyman.yaml"]
    assert PASSWORD not in "".join(said)
