"""What a project declares: loaded, checked and hashed."""
