"""Start: create a working project, run a full example, check the machine."""
