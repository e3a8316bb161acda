"""One asset in one run: from opened inputs to an output with its ledger."""
