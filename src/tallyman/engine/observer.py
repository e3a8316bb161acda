"""The observer of a target's evaluation: the only way from the engine back to its caller."""

from __future__ import annotations


class Observer:
    """A receiver of phases and completed steps. This one ignores both.

    `phase` may raise to end the work: it is called between phases and before anything is proved.
    """

    def phase(self, name: str) -> None:
        """Receive the phase that begins."""

    def step(self, step_id: str) -> None:
        """Receive a step; its effects and those of all earlier steps are written."""

    @property
    def canceled(self) -> bool:
        """True if the work is asked to stop."""
        return False


SILENT = Observer()
