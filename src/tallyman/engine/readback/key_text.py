"""Key texts, written by Spark, read back into the columns they stand for.

Comparing columns instead of texts does not depend on how two engines print a number or a time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tallyman.domain.version.table import spark_columns
from tallyman.engine.files.duck import BLOB, duck_type, text
from tallyman.engine.readback.session import HIDDEN

PLACE = "'^@.*#[0-9]+$'"
"""The pattern of a record's name if it has no key of its own: `@file#number`."""

_SAME_TEXT = re.compile(r"VARCHAR|BOOLEAN|(TINY|SMALL|BIG)?INT(EGER)?|DATE|DECIMAL.*")


def declared_types(schema: str) -> dict[str, str]:
    """Read the types of a declared schema, without asking Spark."""
    return {name: duck_type(kind) for name, kind in spark_columns(schema)}


def field(json: str, name: str) -> str:
    """Extract a field of a JSON text as text; NULL if the text is not JSON."""
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    return f"TRY(json_extract_string({json}, {text(pointer)}))"


def key_piece(value: str, kind: str) -> str:
    """Write a value as the text it has in a key, as an expression; bytes are hex."""
    return f"hex({value})" if kind == BLOB else f"CAST({value} AS VARCHAR)"


@dataclass(frozen=True, slots=True)
class KeyShape:
    """The columns that a key text stands for. One column is written as it is, several as JSON."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    always_json: bool = False
    """True for the key of a group, which is JSON whatever the number of columns."""

    @property
    def is_json(self) -> bool:
        return self.always_json or len(self.names) != 1

    @property
    def plain(self) -> bool:
        """True if equal values have one text in both engines."""
        return not self.is_json and bool(_SAME_TEXT.fullmatch(self.types[0]))

    def pieces(self, key: str) -> list[str]:
        """List the typed columns in a key text, as expressions."""
        if not self.is_json:
            return [self._read(key, self.types[0])]
        return [
            self._read(field(key, name), kind)
            for name, kind in zip(self.names, self.types, strict=True)
        ]

    def _read(self, piece: str, kind: str) -> str:
        """Read a piece of a key text; Spark writes bytes in JSON as base64."""
        if kind == BLOB:
            in_base64 = self.is_json and not self.always_json
            return f"TRY({'from_base64' if in_base64 else 'unhex'}({piece}))"
        return f"TRY_CAST({piece} AS {kind})"

    def hidden(self, covered: Collection[str]) -> KeyShape:
        """Return the shape of keys in a run that kept hashes of these columns."""
        kinds = zip(self.names, self.types, strict=True)
        types = tuple("VARCHAR" if name in covered else kind for name, kind in kinds)
        return replace(self, types=types)

    def hidden_text(self, key: str, covered: Collection[str]) -> str:
        """Write the key text of such a run, as an expression; places stay unchanged."""
        if not self.is_json:
            return f"CASE WHEN regexp_matches({key}, {PLACE}) THEN {key} ELSE {HIDDEN}({key}) END"
        fields = {name: field(key, name) for name in self.names}
        shown = {n: f"{HIDDEN}({v})" if n in covered else v for n, v in fields.items()}
        named = ", ".join(f"{text(n)}, {v}" for n, v in shown.items())
        return (
            f"CASE WHEN regexp_matches({key}, {PLACE}) THEN {key} "
            f"ELSE CAST(json_object({named}) AS VARCHAR) END"
        )

    def fits(self, key: str) -> str:
        """Write a condition that a text can be a key of this shape; `@file#3` cannot, and the key
        of a group cannot be the key of a record.
        """
        if self.is_json:
            names = ", ".join(map(text, self.names))
            return f"coalesce(TRY(list_has_all(json_keys({key}), [{names}])), false)"
        return f"{self._read(key, self.types[0])} IS NOT NULL"

    def text_of(self, values: Sequence[str]) -> str:
        """Write the key text of columns, as an expression; NULL if one of them is NULL."""
        if not self.is_json:
            return key_piece(values[0], self.types[0])
        shown = [
            f"to_base64({value})" if kind == BLOB else value
            for value, kind in zip(values, self.types, strict=True)
        ]
        named = ", ".join(f"{text(n)}, {v}" for n, v in zip(self.names, shown, strict=True))
        known = " AND ".join(f"{value} IS NOT NULL" for value in values)
        return f"CASE WHEN {known} THEN CAST(json_object({named}) AS VARCHAR) END"
