"""Pipeline files, Python, YAML and JSON, compiled to one form in a process of their own."""
