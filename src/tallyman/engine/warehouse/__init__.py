"""Files of versions, readable as open tables."""
