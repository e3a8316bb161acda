"""Dead letters: found, corrected, replayed or discarded."""
