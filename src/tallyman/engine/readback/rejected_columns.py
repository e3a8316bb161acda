"""The columns of published rejections."""

from __future__ import annotations

PARTITION = "partition"
COLUMNS = {
    "error_id": "error_id",
    "source_key": "source_key",
    "error_type": "error_type",
    "error_code": "error_code",
    "morphism_path": "morphism_path",
    "expected": "expected",
    "actual": "actual",
    "entity": "context['entity']",
    "field": "context['field']",
    "step": "context['step']",
    "group_key": "context['group_key']",
    "place": "context['place']",
    "nth_rejection": "context['rejection']",
    PARTITION: "NULL",
}
"""The columns, all text, and where each is in a dead letter. Run and time are left out: the version
names its run, and equal rejections make no new version."""
KEY = ("error_id",)
