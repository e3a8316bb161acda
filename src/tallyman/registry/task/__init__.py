"""Tasks and what moves them: attempts, events, pools, schedules and wake-ups."""
