"""The engine through Project, on small projects that the tests write."""
