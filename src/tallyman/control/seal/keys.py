"""Keys for seals: the private key, which signs, and the public keys, which everyone shares."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from tallyman.engine.files.durable import sync, write
from tallyman.errors import SigningKeyExists, SigningKeyUnusable
from tallyman.settings import Settings
from tallyman.state_folder import ready

FOLDER = "keys"
"""The project's folder of public keys. Commit it: without it nobody can check a signature."""
PRIVATE = "seal.pem"
ID_LENGTH = 16


@dataclass(frozen=True, slots=True)
class NewKey:
    """The files of a new key pair."""

    key: str
    private: str
    public: str
    kept: str | None = None
    """Where the previous private key is now."""

    def to_json(self) -> dict[str, str | None]:
        return {
            "key_id": self.key,
            "private_key": self.private,
            "public_key": self.public,
            "kept": self.kept,
        }


def key_id(public: Ed25519PublicKey) -> str:
    raw = public.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:ID_LENGTH]


def place_of(settings: Settings) -> Path:
    return settings.signing_key or settings.state_folder / FOLDER / PRIVATE


def public_file(settings: Settings, key: str) -> Path:
    return settings.home / FOLDER / f"{key}.pub"


def shown(settings: Settings, path: Path) -> str:
    inside = path.is_relative_to(settings.home)
    return str(path.relative_to(settings.home) if inside else path)


# ---- load keys --------------------------------------------------------------------------------


def private_key(settings: Settings) -> Ed25519PrivateKey | None:
    """Load the private key; None if there is none. Raises SigningKeyUnusable if it cannot sign."""
    place = place_of(settings)
    if settings.signing_key is None and not place.exists():
        return None
    try:
        return _loaded(place)
    except _Refused as refused:
        raise SigningKeyUnusable(shown(settings, place), str(refused)) from None


def public_keys(home: Path) -> dict[str, Ed25519PublicKey]:
    """Load the public keys by id. A file whose name does not match its key is ignored."""
    found = {}
    for path in sorted((home / FOLDER).glob("*.pub")):
        with contextlib.suppress(OSError, ValueError, UnsupportedAlgorithm):
            public = load_pem_public_key(path.read_bytes())
            if isinstance(public, Ed25519PublicKey) and key_id(public) == path.stem:
                found[path.stem] = public
    return found


class _Refused(Exception):
    """Why a file cannot sign; never its content."""


def _loaded(place: Path) -> Ed25519PrivateKey:
    try:
        with open(place, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            if mode & 0o077:
                raise _Refused(f"others can read it (mode {mode:03o}): chmod 600")
            key = load_pem_private_key(file.read(), password=None)
    except OSError as error:
        raise _Refused(f"it cannot be read: {error.strerror}") from None
    except TypeError:
        raise _Refused("it has a passphrase, which a run cannot ask for") from None
    except (ValueError, UnsupportedAlgorithm):
        raise _Refused("it is not a private key in PEM format") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _Refused(f"it is not an Ed25519 key but {type(key).__name__.strip('_')}")
    return key


# ---- make keys --------------------------------------------------------------------------------


def init(settings: Settings) -> NewKey:
    """Make a new pair. An existing private key stays; its public key is written if it is
    missing."""
    place = place_of(settings)
    if place.is_relative_to(settings.state_folder):
        ready(settings.state_folder)
    if place.exists():
        key = private_key(settings)
        assert key is not None
        name = key_id(key.public_key())
        if name in public_keys(settings.home):
            raise SigningKeyExists(shown(settings, place), name)
        return _with_public_key(settings, key)
    key = Ed25519PrivateKey.generate()
    aside = _written(place, key)
    try:
        os.link(aside, place)  # fails if another process made one meanwhile
    except FileExistsError:
        raise SigningKeyExists(shown(settings, place), "made just now") from None
    finally:
        os.unlink(aside)
    sync(place)
    return _with_public_key(settings, key)


def rotate(settings: Settings) -> NewKey:
    """Make a new pair that signs from now on. The old public key stays, to check old seals; the old
    private key is kept under another name."""
    old = private_key(settings)
    place = place_of(settings)
    if old is None:
        raise SigningKeyUnusable(
            shown(settings, place), "there is none yet: run `tallyman keys init`"
        )
    kept = place.with_name(f"{place.stem}-{key_id(old.public_key())}{place.suffix}")
    key = Ed25519PrivateKey.generate()
    made = _with_public_key(settings, key, shown(settings, kept))
    aside = _written(place, key)
    with contextlib.suppress(FileExistsError):
        os.link(place, kept)
    # The replacement is atomic: there is always a key that signs.
    os.replace(aside, place)
    sync(place, kept)
    return made


def _written(place: Path, key: Ed25519PrivateKey) -> Path:
    """Write the private key to a temporary file next to its place, readable only by its owner."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = place.with_name(f".{place.name}.{uuid4()}")
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write(aside, text, mode=0o600, new=True)
    return aside


def _with_public_key(settings: Settings, key: Ed25519PrivateKey, kept: str | None = None) -> NewKey:
    public = key.public_key()
    path = public_file(settings, key_id(public))
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid4()}")
    aside.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    os.replace(aside, path)
    sync(path)
    private = shown(settings, place_of(settings))
    return NewKey(key_id(public), private, shown(settings, path), kept)


# ---- list keys ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownKey:
    """The public keys, and the private key that signs, if it is usable."""

    public: Mapping[str, Ed25519PublicKey]
    signs: str | None
    private: str
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"key_id": name, "file": f"{FOLDER}/{name}.pub", "signs": name == self.signs}
            for name in sorted(self.public)
        ]
        return {
            "keys": rows,
            "signs": self.signs,
            "private_key": self.private,
            "problem": self.problem,
        }


def known(settings: Settings) -> KnownKey:
    public, private = public_keys(settings.home), shown(settings, place_of(settings))
    try:
        key = private_key(settings)
    except SigningKeyUnusable as error:
        return KnownKey(public, None, private, error.why)
    name = key_id(key.public_key()) if key else None
    lost = name is not None and name not in public
    return KnownKey(public, name, private, public_key_missing(str(name)) if lost else None)


def public_key_missing(key: str) -> str:
    return f"its public key {FOLDER}/{key}.pub is missing: `tallyman keys init` writes it again"
