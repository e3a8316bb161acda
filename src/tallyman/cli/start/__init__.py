"""Start: write a project that works, see a full example, check the machine."""
