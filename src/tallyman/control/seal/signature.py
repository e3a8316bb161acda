"""Sign seals, and check signatures."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tallyman.control.seal import keys
from tallyman.domain.history.seal import Seal, Signature
from tallyman.errors import SigningKeyUnusable
from tallyman.registry.database import Transaction
from tallyman.registry.seals import Seals
from tallyman.settings import Settings

ALGORITHM = "ed25519"


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs a seal; leaves it unsigned if the project has no key."""

    settings: Settings = field(repr=False)
    key: Ed25519PrivateKey | None = field(repr=False)

    def __call__(self, seal: Seal) -> Seal:
        key = self._now()
        if key is None:
            return seal
        value = base64.b64encode(key.sign(seal.to_sign)).decode()
        return seal.signed(Signature(key=keys.key_id(key.public_key()), value=value))

    def _now(self) -> Ed25519PrivateKey | None:
        """Load the key again: it may have been made or replaced during the run. Fall back to the
        key that was checked when the run began."""
        with contextlib.suppress(SigningKeyUnusable):
            return keys.private_key(self.settings) or self.key
        return self.key


def signer(tx: Transaction, settings: Settings) -> Signer:
    """Load the signing key before work begins. Raises SigningKeyUnusable if seals must be signed
    but cannot be."""
    key = keys.private_key(settings)
    place = keys.shown(settings, keys.place_of(settings))
    if key is None:
        since = Seals(tx).signed_since(settings.owner)
        if since is not None:
            why = f"it is missing, but the seals of {settings.name} are signed since no. {since}"
            raise SigningKeyUnusable(place, why)
        return Signer(settings, None)
    name = keys.key_id(key.public_key())
    if name not in keys.public_keys(settings.home):
        raise SigningKeyUnusable(place, keys.public_key_missing(name))
    return Signer(settings, key)


def problem_of(seal: Seal, public: Mapping[str, Ed25519PublicKey]) -> str | None:
    """Return what is wrong with a signature; None if it is valid or there is none."""
    signature = seal.signature
    if signature is None:
        return None
    if signature.algorithm != ALGORITHM:
        return f"a signature with the unknown algorithm {signature.algorithm!r}"
    key = public.get(signature.key)
    if key is None:
        return f"a signature by key {signature.key}, which is not in {keys.FOLDER}/"
    try:
        key.verify(base64.b64decode(signature.value, validate=True), seal.to_sign)
    except (InvalidSignature, binascii.Error, ValueError):
        return f"a signature that key {signature.key} did not make"
    return None
