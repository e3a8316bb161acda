"""Plans without data: what each step means, whether it is allowed, and its identity."""
