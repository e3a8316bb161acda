"""Seals: the hash of every file of a finished run, and of the seal before it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tallyman.domain.definition.canonical_json import canonical, hashed

VERSION = "1.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature of a seal. `key` names the public half of the signing key."""

    key: str
    value: str
    algorithm: str = "ed25519"

    def to_json(self) -> dict[str, str]:
        return {"algorithm": self.algorithm, "key": self.key, "value": self.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    project: str
    run_id: str
    openlineage_run_id: str
    status: str
    sealed_at: str
    files: Mapping[str, str]
    """sha256 of each file in the run folder, by name."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further facts the seal binds: reused results, published versions, environment."""
    ordinal: int = 1
    previous: str | None = None
    """The hash of the previous seal of the project; None for the first."""
    signature: Signature | None = None

    def after(self, last: tuple[int, str] | None) -> Seal:
        """Return the seal as the next in the chain, after the seal with this ordinal and hash."""
        if last is None:
            return replace(self, ordinal=1, previous=None)
        return replace(self, ordinal=last[0] + 1, previous=last[1])

    def signed(self, signature: Signature) -> Seal:
        return replace(self, signature=signature)

    @property
    def to_sign(self) -> bytes:
        """Encode everything except the signature."""
        return canonical(self._content()).encode()

    @property
    def text(self) -> str:
        """Return the content of seal.json, byte for byte."""
        signed = {"signature": self.signature.to_json()} if self.signature else {}
        return json.dumps(self._content() | signed, indent=2, ensure_ascii=False) + "\n"

    @property
    def hash(self) -> str:
        """Compute the hash that `sha256sum seal.json` prints."""
        return hashed(self.text)

    def _content(self) -> dict[str, Any]:
        return {
            "seal_version": VERSION,
            "project": self.project,
            "ordinal": self.ordinal,
            "previous": self.previous,
            "run_id": self.run_id,
            "openlineage_run_id": self.openlineage_run_id,
            "status": self.status,
            "sealed_at": self.sealed_at,
            "files": dict(self.files),
            **self.facts,
        }

    @classmethod
    def if_whole(cls, text: str | bytes) -> Seal | None:
        """Parse seal.json; None if it is damaged, which `verify` reports."""
        try:
            return cls.of_text(text)
        except ValueError:
            return None

    @classmethod
    def of_text(cls, text: str | bytes) -> Seal:
        """Parse seal.json; ValueError if it is truncated, or a field is missing or has a wrong
        type.
        """
        try:
            return cls._parsed(dict(json.loads(text)))
        except (AttributeError, KeyError, RecursionError, TypeError) as error:
            raise ValueError(f"not a seal: {error!r}") from error

    @classmethod
    def _parsed(cls, found: dict[str, Any]) -> Seal:
        written = found.pop("signature", None)
        if found.pop("seal_version") != VERSION:
            raise ValueError("a seal of another version")
        names = ("project", "run_id", "openlineage_run_id", "status", "sealed_at")
        known = {name: found.pop(name) for name in (*names, "ordinal", "previous", "files")}
        signature = None if written is None else Signature(**written)
        texts = [*(known[name] for name in names), known["previous"] or ""]
        texts += [*known["files"], *known["files"].values()]
        texts += signature.to_json().values() if signature else ()
        if type(known["ordinal"]) is not int or not all(isinstance(one, str) for one in texts):
            raise TypeError("a field of another type")
        return cls(**known, facts=found, signature=signature)
