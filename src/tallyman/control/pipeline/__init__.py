"""The pipeline that a project declares: loaded, checked and hashed."""
