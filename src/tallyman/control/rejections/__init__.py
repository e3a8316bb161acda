"""Rejections: find, correct, replay and discard them."""
