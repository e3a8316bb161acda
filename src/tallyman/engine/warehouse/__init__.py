"""The files of versions, readable as Iceberg tables."""
