"""Files in, typed records with a key out."""
