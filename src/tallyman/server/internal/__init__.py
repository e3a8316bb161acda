"""The listener of workers: claims and reports, on an address of its own."""
