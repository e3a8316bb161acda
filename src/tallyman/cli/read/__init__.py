"""Read: list and show the pipeline, its runs, and the rows and versions of datasets."""
