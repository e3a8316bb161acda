"""Opening the inputs of past results for one walk."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.files.listing import InputFiles
from tallyman.engine.readback import key_text
from tallyman.engine.readback.csv_records import CsvRecords
from tallyman.engine.readback.parquet_records import ParquetRecords
from tallyman.engine.readback.records import Records
from tallyman.engine.readback.session import DuckSession
from tallyman.engine.readback.text_records import TextRecords


@dataclass
class OpenRecords:
    """The opened inputs. Copies of files that had to be made are removed when it is closed."""

    duck: DuckSession
    _stack: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def _aside(self) -> Path:
        made = tempfile.TemporaryDirectory(prefix="tallyman-lines-")
        return Path(self._stack.enter_context(made))

    def source(self, source: Source, files: InputFiles) -> Records:
        given = (self.duck, source.name, files, source.key)
        declared = key_text.declared_types(source.schema or "")
        if source.format == "parquet":
            return ParquetRecords(*given, hive=True, declared=declared)
        kind = CsvRecords if source.format == "csv" else TextRecords
        return kind(*given, source, self._aside, declared)

    def dataset(self, name: str, files: InputFiles, key: Sequence[str]) -> ParquetRecords:
        files.check_recorded()
        return ParquetRecords(self.duck, name, files, tuple(key))

    def corrected(self, records: Records) -> TextRecords:
        """Open corrected records of an input, in place of its own: lines of JSON, whatever the
        format of their source.
        """
        given = (self.duck, records.name, records.files, records.key)
        source = Source(name=records.name, path="", format="json")
        return TextRecords(*given, source, self._aside, records.types)

    def close(self) -> None:
        self._stack.close()
