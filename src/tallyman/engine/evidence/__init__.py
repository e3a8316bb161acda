"""Evidence: what a run keeps of its rows, written, measured and proved against its inputs."""
