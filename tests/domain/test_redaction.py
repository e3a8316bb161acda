"""Which columns are redacted, and which errors may quote a row."""

from __future__ import annotations

import pytest

from tallyman.domain.account.redaction import covers, without_values


@pytest.mark.parametrize(
    ("redacted", "name", "covered"),
    [
        (["ssn"], "ssn", True),
        (["SSN"], "ssn", True),
        (["ssn"], "Ssn", True),
        (["*"], "anything", True),
        (["a", "*"], "b", True),
        (["ssn"], "ssn2", False),
        ([], "ssn", False),
    ],
)
def test_a_column_is_covered_by_its_name_or_by_a_star(
    redacted: list[str], name: str, covered: bool
) -> None:
    assert covers(redacted, name) is covered


def test_an_error_that_may_quote_a_row_tells_its_kind_and_no_more() -> None:
    quoting = {"code": "new_kind", "message": "key 7", "hint": "Look.", "keys": ["7"]}
    told = without_values(quoting)
    assert "7" not in str(told)
    assert (told["code"], told["hint"]) == ("new_kind", "Look.")
    counting = {"code": "threshold_exceeded", "message": "7 of 9"}
    assert without_values(counting) == counting
