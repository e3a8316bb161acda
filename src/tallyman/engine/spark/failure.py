"""Why Spark failed: a reason in one line, a hint, and the expression that Spark names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

NOTHING = "Nothing was published."
OWN_FUNCTION = (
    f"{NOTHING} A Python function of the pipeline raised it. Correct the function, or let it "
    "return NULL for such values and reject those records with an expect."
)
RAISED = f"{NOTHING} The pipeline asks for this itself, with raise_error or assert_true."
TWO_NAMES = (
    f"{NOTHING} Give each column of the header its own name, or set the option header to false "
    "and declare the columns in a schema."
)
MEMORY = (
    f"{NOTHING} Give Spark more memory, for example `spark: {{spark.driver.memory: 4g}}` in "
    "tallyman.yaml, or cut the input into partitions; then run `tallyman resume`."
)
DISK = f"{NOTHING} Free some space, then run `tallyman resume`."
LOST = (
    f"{NOTHING} Spark itself ended, or its machine did; it may have been killed for its memory. "
    "Look at its log, then run `tallyman resume`."
)
UNKNOWN = f"{NOTHING} The whole message of Spark is in SPARK_ERROR.txt in the asset's run folder."

# Conditions of values that an expression cannot handle; matched at the beginning.
VALUES = (
    "ARITHMETIC_OVERFLOW", "BINARY_ARITHMETIC_OVERFLOW", "CANNOT_PARSE", "CAST_", "CONVERSION_",
    "DATETIME_", "DATE_", "DECIMAL_", "DIVIDE_BY_ZERO", "ELEMENT_AT_BY_INDEX_ZERO",
    "INTERVAL_ARITHMETIC_OVERFLOW", "INTERVAL_DIVIDED_BY_ZERO", "INVALID_ARRAY_INDEX",
    "INVALID_FRACTION_OF_SECOND", "INVALID_INDEX_OF_ZERO", "INVALID_UTF8_STRING",
    "MALFORMED_RECORD_IN_PARSING", "MAP_KEY_DOES_NOT_EXIST", "NUMERIC_", "REMAINDER_BY_ZERO",
    "VALUE_OUT_OF_RANGE",
)  # fmt: skip
_GUARDS = re.compile(r"`(try_\w+)`")
_BYPASS = re.compile(r" If necessary set \S+ to \S+ to bypass this error\.")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Za-z_]\w*)(?:: (.*))?$")
_FRAGMENT = re.compile(r"== SQL.*?==\n(.+?)\n[ ^]+\n", re.S)
_CALLED = re.compile(r'== DataFrame ==\n"[^"]*" was called from\n(\S+\.py:\d+)')
_NAME = re.compile(r"field `([^`]+)`|named `?([^`\s]+)`?")


@dataclass(frozen=True, slots=True)
class SparkFailure:
    reason: str
    advice: str
    fragment: str | None = None
    """The part of an expression that Spark names."""
    function: str | None = None
    """The Python function that raised."""


def failure_of(error: BaseException, said: Callable[[Exception], str]) -> SparkFailure:
    """Explain an error of Spark. `said` gives its first line, or less if it may show values that
    are redacted."""
    text = str(error)
    assert isinstance(error, Exception)
    first = said(error)
    is_open = first == said_plainly(error)
    condition = _condition(error, text)
    if "Traceback (most recent call last)" in text:
        return _of_python(text, first) if is_open else SparkFailure(first, OWN_FUNCTION)
    for known, reason, advice in (
        (_is_disk(text), "there is no space left on the disk", DISK),
        (_is_memory(text), "Spark ran out of memory", MEMORY),
    ):
        if known:
            return SparkFailure(f"{reason}: {first}" if is_open else reason, advice)
    if condition.startswith("AMBIGUOUS_REFERENCE"):
        return _of_two_names(text, first)
    if condition.startswith("USER_RAISED_EXCEPTION"):
        return SparkFailure(first, RAISED, _fragment(text))
    if condition.startswith(VALUES):
        at = _CALLED.search(text) if is_open else None
        where = f" (in {_shown(at[1])})" if at else ""
        reason = _BYPASS.sub("", first)  # a run without these errors would publish wrong values
        return SparkFailure(f"{reason}{where}", _guarded(first), _fragment(text))
    if "connection refused" in text.lower() or "Answer from Java side is empty" in text:
        return SparkFailure(first, LOST)
    return SparkFailure(first, UNKNOWN, _fragment(text))


def _guarded(first: str) -> str:
    """Advise to guard the expression, with the functions that Spark names."""
    guards = ", ".join(dict.fromkeys(_GUARDS.findall(first))) or "try_cast, try_divide"
    return (
        f"{NOTHING} Guard the expression ({guards}) and add an expect that rejects the records it "
        "cannot handle; the rejections then name file and line of each."
    )


def said_plainly(error: Exception, limit: int = 500) -> str:
    """Return the first line of an error that says something: Py4J's first line names only its own
    call, and Java's message follows."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        lines = [re.sub(r"^:? ?[\w.$]+(Exception|Error): ?", "", lines[1]) or lines[1]]
    return lines[0][:limit] if lines else type(error).__name__


def _condition(error: Exception, text: str) -> str:
    ask = getattr(error, "getCondition", None)
    found = (ask() if ask is not None else None) or ""
    in_text = _CONDITION.search(text)
    return str(found or (in_text[1] if in_text else ""))


def _fragment(text: str) -> str | None:
    found = _FRAGMENT.search(text)
    return found[1].strip() if found else None


def _of_python(text: str, first: str) -> SparkFailure:
    """Name type, message and line of what a Python function raised."""
    trace = text[text.rindex("Traceback (most recent call last)") :].splitlines()
    ends = [line for line in trace[1:] if line and not line[0].isspace()]
    raised = _RAISED.match(ends[0].strip()) if ends else None
    if raised is None:
        return SparkFailure(first, OWN_FUNCTION)
    kind, message = raised[1], raised[2] or ""
    own = [f for f in _FRAME.findall("\n".join(trace)) if "/pyspark" not in f[0]]
    where = f" ({own[-1][2]}, {_shown(f'{own[-1][0]}:{own[-1][1]}')})" if own else ""
    function = own[0][2] if own else None
    said = f"{kind}: {message}" if message else kind
    return SparkFailure(f"{said[:400]}{where}", OWN_FUNCTION, function=function)


def _of_two_names(text: str, first: str) -> SparkFailure:
    found = _NAME.search(text)
    name = (found[1] or found[2]) if found else None
    if name is None:
        return SparkFailure(first, TWO_NAMES)
    return SparkFailure(f"its input has two columns named {name!r}", TWO_NAMES)


def _is_memory(text: str) -> bool:
    known = ("OutOfMemoryError", "UNABLE_TO_ACQUIRE_MEMORY", "Java heap space", "GC overhead limit")
    return any(word in text for word in known)


def _is_disk(text: str) -> bool:
    return any(word in text for word in ("No space left on device", "Disk quota exceeded"))


def _shown(place: str) -> str:
    """Shorten a path to the folder of pipelines: messages name no machine path."""
    return "/".join(place.split("/")[-2:])
