"""Give workers of the installed command the kinds of task that tests have: Python imports this file
when it starts."""

from tallyman.worker.worker import ENTRIES

ENTRIES.update(
    echo="tests.dispatch.work:echo",
    raises="tests.dispatch.work:raises",
    held="tests.operate.work:held",
)
