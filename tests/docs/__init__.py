"""Run the console blocks of README and guides, and compare or record what they print."""
