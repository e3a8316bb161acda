"""Settings from tallyman.yaml and the environment, read once, at the edges, as a frozen value."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import yaml

from tallyman.domain.version.owner import DEFAULT_ORGANISATION, Owner
from tallyman.errors import NotFound, UsageError
from tallyman.errors.wording import nearest

FILE = "tallyman.yaml"
STATE = ".tallyman"
KNOWN = (
    "name",
    "organisation",
    "pipelines",
    "runs",
    "warehouse",
    "master",
    "spark",
    "thresholds",
    "database",
    "trace",
    "signing_key",
    "keep_runs",
    "column_metrics",
    "server",
)
DATABASE_VARIABLE = "TALLYMAN_DATABASE_URL"
KEY_VARIABLE = "TALLYMAN_SIGNING_KEY"
SERVER_VARIABLE = "TALLYMAN_SERVER"
INSECURE_VARIABLE = "TALLYMAN_INSECURE"
NO_SERVER = "none"
"""In place of an address: commands make runs themselves, whatever tallyman.yaml says."""
CONNECT_VARIABLE = "SPARK_REMOTE"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
LONGEST_S = 1e9
"""The longest age that can be meant, in seconds."""
LONGEST_NAME = 255
ORGANISATION = re.compile(r"[a-z][a-z0-9_]{0,63}")
SERVER = re.compile(r"https?://[^\s/@]+/?|unix:\S+")
HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(:\d*)?")


class Secret:
    """A text that is never shown, written to files or passed to other processes."""

    __slots__ = ("_text",)
    _text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_text", text)

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret cannot be changed")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a project. `home` is the folder of tallyman.yaml; other paths are relative to
    it.
    """

    home: Path
    name: str
    organisation: str = DEFAULT_ORGANISATION
    pipelines: str = "pipelines"
    runs: str = "runs"
    warehouse: str = "warehouse"
    master: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark settings. Excluded from `repr`: they may contain passwords of object stores."""
    thresholds: str | Mapping[str, object] | None = None
    database: Secret | None = None
    """The address of an external server; without one, the project starts its own."""
    database_of: Path | None = None
    """Another project, whose own server this one uses and starts too."""
    redacted: tuple[str, ...] = ()
    """Columns for which a trace keeps a keyed hash instead of the value."""
    signing_key: Path | None = None
    """The file of the private key that signs seals; by default the key of `tallyman keys init`."""
    keep_runs_s: float | None = None
    """The age in seconds from which a cleanup removes runs that nothing needs; None: never."""
    column_metrics: bool = False
    """True if runs measure the columns of text inputs."""
    server: str | None = None
    """The address of the server whose workers make runs; without one, commands make them."""
    actor: str = "unknown"
    """The person or program recorded as responsible: TALLYMAN_ACTOR, or the operating system user.
    """

    @property
    def owner(self) -> Owner:
        """The pipeline as it is known in the database."""
        return Owner(self.organisation, self.name)

    @property
    def runs_folder(self) -> Path:
        return self.home / self.runs

    @property
    def warehouse_folder(self) -> Path:
        return self.home / self.warehouse

    @property
    def state_folder(self) -> Path:
        return self.home / STATE

    @property
    def server_folder(self) -> Path:
        """The folder with the data of the embedded server."""
        return (self.database_of or self.home) / STATE

    def with_spark(self, master: str | None, conf: Mapping[str, str]) -> Settings:
        return replace(self, master=master or self.master, spark={**self.spark, **conf})


def read_settings(start: str | Path | None = None) -> Settings:
    """Read tallyman.yaml in `start` (or TALLYMAN_HOME, or the working directory) or in a parent."""
    begin = Path(start or os.environ.get("TALLYMAN_HOME") or Path.cwd()).resolve()
    for folder in (begin, *begin.parents):
        if (folder / FILE).is_file():
            return _parsed(folder)
    raise NotFound("project (no tallyman.yaml here or in any parent) at", str(begin))


def _parsed(home: Path) -> Settings:
    found = _read(home)
    texts = _spark(home, found.get("spark"))
    plain = ("pipelines", "runs", "warehouse", "master", "thresholds")
    rest = {k: found[k] for k in plain if k in found}
    for name in ("pipelines", "runs", "warehouse"):
        # The root has no name, and what lies there is nobody's project.
        if name in rest and (not _is_text(rest[name]) or not (home / rest[name]).resolve().name):
            raise UsageError(f"{home / FILE}: {name}: expected a folder, not {_shown(rest[name])}")
    if rest.get("master") is not None and not _is_text(rest["master"]):
        given = _shown(rest["master"])
        raise UsageError(f"{home / FILE}: master: expected an address of Spark, not {given}")
    name = _name(home, found.get("name"))
    rest["organisation"] = _organisation(home, found.get("organisation"))
    rest["master"] = rest.get("master") or _connect_server()
    rest["database_of"] = _database_of(home, found.get("database"))
    rest["database"] = _database(home, None if rest["database_of"] else found.get("database"))
    rest["redacted"] = _redacted(home, found.get("trace"))
    rest["signing_key"] = _signing_key(home, found.get("signing_key"))
    if (kept := found.get("keep_runs")) is not None:
        rest["keep_runs_s"] = age_s(str(kept), f"{home / FILE}: keep_runs")
    rest["column_metrics"] = _column_metrics(home, found.get("column_metrics"))
    rest["server"] = _server(home, found.get("server"))
    return Settings(home=home, name=name, spark=texts, actor=_actor(), **rest)


def age_s(text: str, where: str) -> float:
    """Read an age such as 12h or 7d, in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if not found:
        raise UsageError(f"{where}: expected a number and s, m, h, d or w, not {text!r}")
    return min(float(found[1]) * UNITS[found[2]], LONGEST_S)


def _read(home: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load((home / FILE).read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise UsageError(f"{home / FILE} is not valid YAML: {_where(error)}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{home / FILE} is not UTF-8: byte {error.start + 1}") from None
    except RecursionError:
        raise UsageError(f"{home / FILE} is nested too deeply to be read") from None
    except ValueError as error:  # a date or number that YAML has and Python does not
        raise UsageError(f"{home / FILE} has a value that cannot be read: {error}") from None
    except OSError as error:
        raise UsageError(f"{home / FILE} cannot be read: {error.strerror}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{home / FILE}: expected names and values")
    for key in found:
        if key not in KNOWN:
            near = nearest(str(key), KNOWN)
            meant = f" Did you mean {near!r}?" if near else ""
            raise UsageError(f"{home / FILE}: unknown setting {_shown(key)}.{meant}")
    return found


def _is_text(value: object) -> bool:
    """True for a text that can be a path or an address."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _shown(value: object) -> str:
    """Describe a value for a message; aliases can make a list or mapping of any size."""
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value)[:80]


def _name(home: Path, written: object) -> str:
    name = home.name if written is None else written
    plain = isinstance(name, (str, int, float)) and not isinstance(name, bool)
    if not plain or not _is_text(str(name)) or len(str(name)) > LONGEST_NAME:
        expected = f"a text of at most {LONGEST_NAME} characters"
        raise UsageError(f"{home / FILE}: name: expected {expected}, not {_shown(name)}")
    return str(name)


def _organisation(home: Path, written: object) -> str:
    """Check the organisation: it is part of paths in the warehouse."""
    name = DEFAULT_ORGANISATION if written is None else written
    if not isinstance(name, str) or not ORGANISATION.fullmatch(name):
        expected = "lower-case letters, digits and '_', beginning with a letter, at most 64"
        raise UsageError(f"{home / FILE}: organisation: expected {expected}, not {_shown(name)}")
    return name


def _spark(home: Path, written: object) -> dict[str, str]:
    if written is None:
        return {}
    if not isinstance(written, dict):
        raise UsageError(f"{home / FILE}: spark: expected names and values")
    for name, value in written.items():
        if isinstance(value, (dict, list)) or value is None:
            expected = "expected a text, a number, true or false"
            raise UsageError(f"{home / FILE}: spark: {name}: {expected}, not {_shown(value)}")
    return {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in written.items()}


def _column_metrics(home: Path, written: object) -> bool:
    if not isinstance(written, (bool, type(None))):
        given = _shown(written)
        raise UsageError(f"{home / FILE}: column_metrics: expected true or false, not {given}")
    return bool(written)


def _redacted(home: Path, written: object) -> tuple[str, ...]:
    if written is None:
        return ()
    if not isinstance(written, dict) or not set(written) <= {"redact"}:
        raise UsageError(
            f"{home / FILE}: trace: expected `redact: [columns]`, not {_shown(written)}"
        )
    listed = written.get("redact") or []
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise UsageError(f"{home / FILE}: trace: redact: expected a list of columns")
    return tuple(listed)


def _signing_key(home: Path, written: object) -> Path | None:
    from_environment = os.environ.get(KEY_VARIABLE)
    if from_environment:
        return Path.cwd() / Path(from_environment).expanduser()
    if written is None:
        return None
    if not isinstance(written, str) or not written.strip() or "\n" in written:
        # Do not quote the value: somebody may have written the key itself.
        raise UsageError(f"{home / FILE}: signing_key: expected the path of a file")
    return home / Path(written).expanduser()


def _server(home: Path, written: object) -> str | None:
    from_environment = os.environ.get(SERVER_VARIABLE)
    where = SERVER_VARIABLE if from_environment else f"{home / FILE}: server"
    address = from_environment or written
    if address is None or address == NO_SERVER:
        return None
    insecure = os.environ.get(INSECURE_VARIABLE) == "1"
    return server_address(address, where, insecure=insecure)


def server_address(address: object, where: str = "server", *, insecure: bool = False) -> str:
    """Check the address of a server, for whoever calls one. Unless `insecure`, refuse one of
    another machine without TLS: tokens and data of tasks could be read on the way."""
    text = address.strip().rstrip("/") if isinstance(address, str) else ""
    if not SERVER.fullmatch(text):
        expected = "http://host:port, https://host or unix:path"
        raise UsageError(f"{where}: expected {expected}, not {_shown(address)}")
    if text.startswith("http:") and not insecure and not is_local(urlsplit(text).hostname or ""):
        raise UsageError(
            f"{where}: {text} is another machine, and http:// is not encrypted: others could read "
            f"tokens on the way. Use https://, or allow it with --insecure or {INSECURE_VARIABLE}=1"
        )
    return text


def is_local(host: str) -> bool:
    """True if the name or address of a host is that of this machine, whatever its network."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _connect_server() -> str | None:
    """Read PySpark's SPARK_REMOTE where it names a server; `local` means one in the process."""
    address = os.environ.get(CONNECT_VARIABLE, "")
    return address if address.startswith("sc://") else None


def _actor() -> str:
    try:
        return os.environ.get("TALLYMAN_ACTOR") or getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def _where(error: yaml.YAMLError) -> str:
    """Locate a YAML mistake without the lines the error quotes: they may contain a password."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "it cannot be read"
    mark = error.problem_mark
    return f"{error.problem}, line {mark.line + 1}, column {mark.column + 1}"


def _database_of(home: Path, written: object) -> Path | None:
    """Return the project that `database: {project: ../sales}` names."""
    if not isinstance(written, dict):
        return None
    where, folder = f"{home / FILE}: database", written.get("project")
    if len(written) != 1 or not _is_text(folder):
        raise UsageError(f"{where}: expected an address, or {{project: folder of another project}}")
    there = (home / str(folder)).resolve()
    if there == home or not (there / FILE).is_file():
        raise UsageError(f"{where}: there is no other project in {folder!r}")
    if _read(there).get("database") is not None:
        raise UsageError(f"{where}: the project in {folder!r} names a database itself; name that")
    return there


def _database(home: Path, written: object) -> Secret | None:
    from_environment = os.environ.get(DATABASE_VARIABLE)
    where = DATABASE_VARIABLE if from_environment else f"{home / FILE}: database"
    text = from_environment or written
    if text is None:
        return None
    if not isinstance(text, str):
        raise UsageError(f"{where}: expected an address as text")
    problem = _problem_of_address(text.strip())
    if problem:
        raise UsageError(f"{where}: {problem}")
    return Secret(text.strip())


def _problem_of_address(text: str) -> str | None:
    """Describe what is wrong without quoting it: any part may be an unescaped password."""
    if re.match(r"\w+\s*=", text):
        return None
    scheme, _, rest = text.partition("://")
    if scheme not in ("postgresql", "postgres"):
        return "expected postgresql://user:password@host:port/name, or key=value pairs"
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    if rest.count("@") > 1 or "@" in rest[len(authority) :]:
        return "it has an '@', '/' or '?' that must be percent-encoded (%40, %2F, %3F)"
    if not all(HOST.fullmatch(host) for host in authority.rpartition("@")[2].split(",")):
        return "the port is not a number; ':' and '@' within a password are %3A and %40"
    return None
