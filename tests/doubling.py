"""A bug in the engine that makes two rows of one, planted by a pipeline file.

No expression can do that any more. So the file replaces the engine's `select` for the one step
that is named like this; every other step is the engine's own.
"""

BUG = "doubled_by_a_bug"
PLANTED = f'''
from dataclasses import replace

from tallyman.engine.segment import segment


def _doubling(flow, step, select=segment.select):
    done = select(flow, step)
    return replace(done, rows=done.rows.unionAll(done.rows)) if step.name == "{BUG}" else done


if segment.select.__name__ != "_doubling":
    segment.select = _doubling

'''
