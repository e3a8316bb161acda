"""For every test: a Java that starts fast, for many short Spark processes and no long one."""

import os

os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
