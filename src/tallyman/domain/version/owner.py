"""The owner of runs, results and datasets: one pipeline of one organisation."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_ORGANISATION = "default"


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """A pipeline, by its organisation and its name. Several of them share one database."""

    org: str
    project: str

    @property
    def key(self) -> dict[str, str]:
        """Return both parts, as parameters of a statement."""
        return {"org": self.org, "project": self.project}

    def __str__(self) -> str:
        return f"{self.org}/{self.project}"
