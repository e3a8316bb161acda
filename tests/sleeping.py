"""What a pipeline file needs so that a step takes its time: functions that wait at each row."""

SLEEPING = """\
import os
import time

from pyspark.sql import functions as F


def slept(column, seconds):
    return F.udf(lambda n: time.sleep(seconds) or n, "int")(column)


def held(column, place):
    def wait(n):
        # Not for ever: a test that failed leaves no file.
        for _ in range(600):
            if os.path.exists(place):
                break
            time.sleep(0.1)
        return n

    return F.udf(wait, "int")(column)


"""
