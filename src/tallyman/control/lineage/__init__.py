"""What lineage tools are told, and how it gets to them."""
