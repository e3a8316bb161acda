"""Pages for people: HTML made from what the read side answers."""
