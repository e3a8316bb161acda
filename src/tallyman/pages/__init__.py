"""HTML pages for people, made from the answers of the read side."""
