"""Sources: from files to typed records with a key."""
