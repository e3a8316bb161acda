"""Walks: from a row back to its records (`why`), and from a record on to its rows (`where`)."""
