"""Triggers, retries and pools of assets: what may be declared, and what is refused."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallyman as tm
from tallyman.control.dispatch.cron import Cron
from tallyman.domain.pipeline.pipeline import Asset, Pipeline
from tallyman.errors import DefinitionError, TallymanError, UsageError
from tests.compiled.documents import crons

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def made(*inputs: str, name: str = "made", **options: Any) -> Asset:
    scope: dict[str, Callable[..., tm.Frame]] = {}
    exec(f"def {name}({', '.join(inputs)}): return {inputs[0]}", scope)
    declared = tm.asset(scope[name], **options)
    assert isinstance(declared, Asset)
    return declared


@given(crons())
def test_what_is_declared_is_due_at_some_time(expression: str) -> None:
    assert Cron(tm.schedule(expression).cron).next(NOW) > NOW


@given(st.text("0123456789*/,-ASUNJFR ", max_size=20))
def test_no_expression_is_accepted_that_cannot_be_evaluated(expression: str) -> None:
    """What `schedule` accepts, `Cron` does too: a server must not stumble over it."""
    with suppress(UsageError):
        Cron(tm.schedule(expression).cron)


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("0 2 * *", "has 4 fields; expected five"),
        ("@daily", "has 1 fields"),
        ("60 * * * *", "minute '60': expected 0 to 59"),
        ("0 2-1 * * *", "hour '2-1': it ends before it begins"),
        ("*/0 * * * *", "the step '0' is a number above 0"),
        ("0 0 * FEBR *", "month 'FEBR': expected 1 to 12 or JAN to DEC"),
        ("0 0 31 4,6 *", "is never due"),
        ("", "expected a text"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_field(cron: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        tm.schedule(cron)
    assert message in str(raised.value)


def test_blanks_of_an_expression_do_not_count() -> None:
    assert tm.schedule(" 0  2 * *\t*") == tm.schedule("0 2 * * *", timezone="UTC")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "a" * 99])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="there is no time zone"):
        tm.schedule("0 2 * * *", timezone=zone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trigger": "events"}, "trigger is 'manual', 'event' or tm.schedule(…), not 'events'"),
        ({"trigger": None}, "trigger is 'manual'"),
        (
            {
                "trigger": tm.schedule("0 2 * * *"),
                "partitioned_by": tm.daily("day", "2026-01-01"),
            },
            "does not say which partition of 'day' to make",
        ),
        ({"retry": 3}, "retry is tm.retry(…), not 3"),
        ({"timeout": "soon"}, "timeout: expected a number and s, m, h or d, not 'soon'"),
        ({"timeout": 30}, "timeout: expected a number"),
        ({"timeout": "0s"}, "timeout is 1s to 30d"),
        ({"timeout": "1h", "retry": tm.retry(timeout="2h")}, "timeout is given twice"),
        ({"priority": 1.5}, "priority is a whole number from -100 to 100, not 1.5"),
        ({"priority": True}, "priority is a whole number"),
        ({"pool": "Small"}, "pool 'Small': use lower-case letters"),
        ({"pool": ""}, "pool: expected a text"),
        ({"max_concurrency": 0}, "max_concurrency is a whole number from 1 to 10,000, not 0"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TallymanError) as raised:
        made("orders", **options)
    assert message in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_timeout_alone_is_that_of_the_usual_policy() -> None:
    assert made("orders", timeout="5m").retry == tm.retry(timeout="5m")
    assert made("orders", timeout="5m", retry=tm.retry(2)).retry == tm.retry(2, timeout="5m")
    assert made("orders").retry is None


DAYS = tm.daily("day", "2026-01-01")


def wired(**options: Any) -> list[str]:
    declared = [
        tm.source("orders", "data", schema="a int"),
        tm.table("rates", schema="a int", key="a"),
        tm.dataset("customers"),
        made("orders", name="plain"),
        made("orders", name="daily", partitioned_by=DAYS),
        made("orders", name="shipped", partitioned_by=tm.daily("shipped", "2026-01-01")),
        made(*options.pop("inputs"), trigger="event", name="reader", **options),
    ]
    try:
        Pipeline.of(declared)
    except DefinitionError as error:
        return [problem.message for problem in error.problems]
    return []


def test_an_asset_that_no_event_can_reach_is_a_mistake() -> None:
    [only_sources] = wired(inputs=["orders"])
    assert "it reads only sources, which have no events" in only_sources
    for inputs in (["rates"], ["plain"], ["orders", "daily"], ["customers"]):
        assert wired(inputs=inputs) == []


def test_a_partitioned_asset_follows_what_is_partitioned_in_the_same_way() -> None:
    for inputs in (["plain"], ["rates"], ["shipped"], ["orders", "rates"]):
        [mistake] = wired(inputs=inputs, partitioned_by=DAYS)
        assert "none of its inputs is partitioned by 'day' in the same way" in mistake
    for inputs in (["daily"], ["plain", "daily"], ["customers"]):
        assert wired(inputs=inputs, partitioned_by=DAYS) == []
