"""Hashes of all that a segment of a target is made from: equal hashes, equal segments."""

from __future__ import annotations

from collections.abc import Mapping

from tallyman.control.bind.manifest import config_of
from tallyman.control.bind.pinned_files import Pin
from tallyman.control.pipeline.definitions import Definitions
from tallyman.domain.account.ledger import DIGEST_VERSION
from tallyman.domain.definition.canonical_json import canonical_hash
from tallyman.domain.history.options import Options
from tallyman.domain.pipeline.target import Target
from tallyman.engine.spark.environment import environment


def segments_made_from(
    definitions: Definitions, options: Options, target: Target, pins: Mapping[str, Pin]
) -> dict[str, str]:
    """Hash what the rows of a target depend on; nothing for a project with redacted columns, whose
    values must not stay in the files of a run that failed.
    """
    settings = definitions.settings
    if settings.redacted:
        return {}
    config = config_of(definitions, [target], options)
    contents = {name: pin.files.content_hash for name, pin in pins.items()}
    return {
        "definition": definitions.hash(target.asset),
        "inputs": canonical_hash(contents),
        "code": definitions.source_hash(),
        "settings": canonical_hash(config),
        "digests": str(DIGEST_VERSION),
        "environment": canonical_hash(environment(settings.master, settings.spark)),
    }
