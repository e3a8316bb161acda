"""Database addresses: connect to them, and show them to people without secrets.

The driver quotes what it cannot parse, and a password with an unescaped `@` or `/` parses as a
host. So an address that looks wrong is never passed on and never shown, not even a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from tallyman.errors import DatabaseUnavailable

Transaction = psycopg.Connection[dict[str, Any]]

APPLICATION = "tallyman"
HIDDEN = "***"
SECRETS = ("password", "sslpassword", "oauth_client_secret")
UNREADABLE = "an address that cannot be read"
MALFORMED = "it is malformed; a password in a URL has to be percent-encoded"
# A server that vanished behind a firewall must be noticed before a command gives up.
DEFAULTS: Mapping[str, str] = {
    "application_name": APPLICATION,
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
COMING_BACK = re.compile(r"starting up|shutting down|recovery|too many|remaining connection|reset")


LET_GO = "SET idle_in_transaction_session_timeout = '15s'"
"""A process that is stopped inside a transaction must not block others."""


def connect(url: str, place: str | None = None) -> Transaction:
    """Open an autocommit connection, or raise DatabaseUnavailable with `place` and without a
    password."""
    known = _readable(url)
    try:
        address = make_conninfo(**{**DEFAULTS, **known})
        found = Transaction.connect(address, autocommit=True, row_factory=dict_row)
        found.execute(LET_GO)
        return found
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(place or redacted(url), brief(error)) from None
    except psycopg.ProgrammingError:
        raise DatabaseUnavailable(UNREADABLE, MALFORMED) from None


def split_address(url: str) -> dict[str, str] | None:
    """Split the address by libpq's names; None if it cannot be an address."""
    try:
        known = {k: str(v) for k, v in conninfo_to_dict(url).items() if v is not None}
    except (psycopg.Error, UnicodeError):
        return None
    port, host = known.get("port", ""), known.get("host", "")
    if not re.fullmatch(r"[\d,]*", port) or (not host.startswith("/") and "@" in host):
        return None
    if url.strip().startswith(("postgres://", "postgresql://")):
        authority, _, rest = url.partition("://")[2].partition("/")
        if "@" in rest or "@" in authority.partition("?")[2]:
            return None
    return known


def _readable(url: str) -> dict[str, str]:
    known = split_address(url)
    if known is None:
        raise DatabaseUnavailable(UNREADABLE, MALFORMED)
    return known


def redacted(url: str) -> str:
    """Return user and place for people, and nothing else."""
    known = split_address(url)
    if known is None:
        return UNREADABLE
    user = f"{known['user']}@" if known.get("user") else ""
    port = f":{known['port']}" if known.get("port") else ""
    return f"postgresql://{user}{known.get('host', '')}{port}/{known.get('dbname', '')}"


def shareable(url: str, *, show_password: bool) -> str:
    """Return the whole address as a URL for other programs; secrets only on request."""
    known = _readable(url)
    if not show_password:
        known |= dict.fromkeys([name for name in SECRETS if name in known], HIDDEN)
    user, password = known.pop("user", ""), known.pop("password", None)
    who = quote(user, safe="") + (f":{quote(password, safe='*')}" if password is not None else "")
    host, port = known.get("host", ""), known.get("port", "")
    where = ""
    if re.fullmatch(r"[\w.-]+", host) and re.fullmatch(r"\d*", port):
        where = f"{known.pop('host')}:{port}" if known.pop("port", "") else known.pop("host")
    name = quote(known.pop("dbname", ""), safe="")
    rest = urlencode(known, quote_via=quote, safe="/*")
    return f"postgresql://{who + '@' if who else ''}{where}/{name}" + (f"?{rest}" if rest else "")


def without_secrets(url: str) -> tuple[str, str | None]:
    """Return the address for a command line, which everybody on the machine can see, and the
    password separately."""
    known = _readable(url)
    password = known.get("password")
    return make_conninfo(**{k: v for k, v in known.items() if k not in SECRETS}), password


def brief(error: Exception) -> str:
    """Return the driver's message on one line."""
    return " ".join(str(error).split())[:400] or "no answer"


def hopeless(reason: str) -> bool:
    """True if the server answered with a refusal that waiting cannot change, such as a wrong
    password."""
    return reason == MALFORMED or ("FATAL:" in reason and not COMING_BACK.search(reason))
