"""THE WORDS. Plain Python: no Spark, no SQL, no files, no clock."""
