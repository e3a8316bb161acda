"""What a pipeline file needs so that a step takes its time: a function that sleeps at each row."""

SLEEPING = """\
import time

from pyspark.sql import functions as F


def slept(column, seconds):
    return F.udf(lambda n: time.sleep(seconds) or n, "int")(column)


"""
