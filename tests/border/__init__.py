"""Bugs planted where one result becomes the input of another: the gate or `verify` finds them."""
