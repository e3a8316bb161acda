"""The compiled form of a pipeline: one JSON document, written, read and described by a schema."""
