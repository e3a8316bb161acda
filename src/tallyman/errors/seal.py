"""Errors about signing keys."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class SigningKeyUnusable(TallymanError):
    """A signing key cannot be used. Raised before a run starts, so that no run ends unsigned."""

    code = "signing_key_unusable"
    exit_code = 2
    hint = "Nothing was started. `tallyman keys ls` lists the keys and which one signs."
    text = "signing key {place}: {why}."
    place: str
    why: str


class SigningKeyExists(TallymanError):
    code = "signing_key_exists"
    exit_code = 2
    hint = "Nothing was changed. `tallyman keys rotate` makes a new one and keeps the old one."
    text = "a signing key already exists: {key} in {place}."
    place: str
    key: str
