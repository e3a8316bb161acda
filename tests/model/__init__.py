"""A model of the product: what readers must see after any sequence of commands."""
