"""Work for workers: tasks, attempts, events and retries."""
