"""Counts of rejections are counts of records, whatever their keys."""

from __future__ import annotations

import json
from pathlib import Path

from tallyman.engine.readback.dead_letters import Letters


def letter(key: str, rule: str, **context: str) -> dict[str, object]:
    return {"source_key": key, "error_type": "refinement_error", "morphism_path": rule} | {
        "context": {"step": "10_expect", **context}
    }


def test_records_that_share_a_key_are_counted_one_by_one(tmp_path: Path) -> None:
    letters = [
        # Two records with one key; the first broke two rules.
        letter("dup", "a", rejection="1/2"),
        letter("dup", "b", rejection="2/2"),
        letter("dup", "a", rejection="1/1"),
        letter("one", "a", rejection="1/1"),
    ]
    place = tmp_path / "errors" / "error_type=refinement_error"
    place.mkdir(parents=True)
    (place / "part-00000.jsonl").write_text("".join(json.dumps(one) + "\n" for one in letters))
    with Letters({"asset": tmp_path}) as read:
        assert read.records()["open"] == 3
        assert sum(row["count"] for row in read.summary()) == len(letters)
