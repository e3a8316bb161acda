"""For every test: Java that starts fast. Tests run many short Spark processes, none of them long."""

import os

os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
