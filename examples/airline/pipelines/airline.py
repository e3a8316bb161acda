"""Daily revenue of flown segments; every booking record is accounted for."""

import tallyman as tm

segments = tm.source(
    "segments",
    path="data/bookings",
    format="json",
    key="segment_id",
    schema="segment_id string, flight_date date not null, status string, airline string, "
    "ticket_price decimal(10,2), distance_km int",
)
airlines = tm.source(
    "airlines",
    path="data/reference/airlines.csv",
    format="csv",
    key="code",
    schema="code string, name string",
)


@tm.asset(key="flight_date")
def daily_revenue(segments: tm.Frame, airlines: tm.Frame) -> tm.Frame:
    return (
        segments.expect("positive_price", "ticket_price > 0", code="NEGATIVE_PRICE")
        .expect("distance_not_negative", "distance_km >= 0")
        .filter("status = 'FLOWN'", reason="not flown", name="flown_status_filter")
        .join(airlines, "airline = code", unmatched="error", name="known_airline")
        .groupBy("flight_date")
        .agg(
            total_revenue="sum(ticket_price)",
            segments="count(*)",
            name="daily_revenue_aggregation",
        )
    )
