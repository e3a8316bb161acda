"""The OpenLineage client of a destination. Importing it takes long, so only senders do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.transport import get_default_factory

from tallyman.control.delivery import client_log


class Client(OpenLineageClient):
    """A client that reads no config file of its own, and puts no copy of the key into the
    environment, which child processes inherit."""

    def _alias_env_vars(self) -> None:
        pass

    @staticmethod
    def _find_yaml_config_path() -> str | None:
        return None


def made(config: Mapping[str, Any], transport: Mapping[str, Any]) -> Client:
    """Make a client that tries each event once and follows no redirect."""
    client_log.overhear()
    # Pass a copy: the factory removes entries from its argument.
    sending = get_default_factory().create({**transport})
    client_log.refuse_redirects(sending)
    return Client(transport=sending, config={**config, "transport": dict(transport)})
