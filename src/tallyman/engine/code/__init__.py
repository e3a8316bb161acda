"""Pipeline files as text: hashes of code, the modules it imports, and what people may see of it."""
