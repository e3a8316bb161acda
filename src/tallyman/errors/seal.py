"""Errors about signing keys."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class SigningKeyUnusable(TallymanError):
    """A signing key cannot be used. Raised before a run starts, so that no run ends unsigned."""

    code = "signing_key_unusable"
    exit_code = 2
    hint = "Nothing was started. `tallyman keys ls` lists the keys and which one signs."

    def __init__(self, place: str, why: str) -> None:
        super().__init__(place, why)
        self.place, self.why = place, why

    def __str__(self) -> str:
        return f"signing key {self.place}: {self.why}."


class SigningKeyExists(TallymanError):
    """A private key exists already; it is never overwritten."""

    code = "signing_key_exists"
    exit_code = 2
    hint = "Nothing was changed. `tallyman keys rotate` makes a new one and keeps the old one."

    def __init__(self, place: str, key: str) -> None:
        super().__init__(place, key)
        self.place, self.key = place, key

    def __str__(self) -> str:
        return f"a signing key already exists: {self.key} in {self.place}."
