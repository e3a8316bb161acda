"""HTTP: one router per noun, errors as problems; `internal/` is for workers."""
