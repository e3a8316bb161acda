"""One target: assigned, made, proved, and its outcome recorded, in this process or in another."""
