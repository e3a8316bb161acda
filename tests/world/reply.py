"""What a command answered."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Reply(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """What `--json` printed; None if stdout is not JSON."""
        try:
            return json.loads(self.stdout)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.stdout[-3000:]}\n{self.stderr[-3000:]}"
