"""Tasks and what moves them: attempts, events, pools, schedules, outbox and queue."""
