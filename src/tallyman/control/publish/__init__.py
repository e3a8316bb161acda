"""Publication: everything that changes what readers see."""
