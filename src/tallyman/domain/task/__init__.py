"""Work for workers: tasks, attempts, events, retries, schedules, and the queue that wakes them."""
