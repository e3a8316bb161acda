"""Whoever follows the making of a target: the only way from the engine back to its caller."""

from __future__ import annotations


class Observer:
    """Hear which phase begins and which step is complete. This one ignores both.

    `phase` may raise to end the work: it is called between phases and before anything is proved.
    """

    def phase(self, name: str) -> None:
        """Hear that a phase begins."""

    def step(self, step_id: str) -> None:
        """Hear that the effects of a step and of all before it are written."""

    @property
    def canceled(self) -> bool:
        """True if the work is asked to stop."""
        return False


SILENT = Observer()
