"""Read: list and show the pipeline, its runs, and the versions and rows of datasets."""
