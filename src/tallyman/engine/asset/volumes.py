"""The volume of an asset's inputs: what is said about inputs that are empty or that shrank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tallyman.engine.asset.work import Work
from tallyman.engine.segment.reference import References
from tallyman.engine.source.doors import Doors
from tallyman.errors import EmptyInput, InputShrank, ThresholdExceeded


@dataclass(frozen=True, slots=True)
class Volumes:
    work: Work
    doors: Doors
    references: References

    def check_references(self) -> None:
        """Raise what halts the asset before anything of it is made."""
        self._raise(self._of_references())

    def check_early(self) -> None:
        """Raise the same for accounted inputs that are known to be too small before they are
        read."""
        known = [name for name in self._accounted if name in self.work.volume.before]
        early = [n for n in known if self._shrank(n, self.doors.inputs[n].at_most())]
        self._raise(self._of_accounted(early))

    def against(self) -> ThresholdExceeded | None:
        """Return what halts the asset, when all records were counted."""
        found = self._of_accounted(self._accounted)
        return next((error for said, error in found if said == "halt"), None)

    def warnings(self) -> tuple[str, ...]:
        """Say what was found and did not halt the asset."""
        found = [*self._of_references(), *self._of_accounted(self._accounted)]
        name = f"{self.work.asset.name}: "
        texts = (str(error) for said, error in found if said == "warn")
        return tuple(text.removeprefix(name).removesuffix(".") for text in texts)

    def records_read(self) -> dict[str, int]:
        """Map each input to the number of records that were read of it."""
        accounted = {name: self.doors.records_of(name) for name in self._accounted}
        return self.references.counts | accounted

    @property
    def _accounted(self) -> list[str]:
        return list(dict.fromkeys(self.doors.accounted))

    def _raise(self, found: Iterator[tuple[str, ThresholdExceeded]]) -> None:
        for said, error in found:
            if said == "halt":
                raise error

    def _of_references(self) -> Iterator[tuple[str, ThresholdExceeded]]:
        asset = self.work.asset.name
        for name, count in self.references.counts.items():
            said, source = self._on_empty(name, "halt"), self.references.inputs[name]
            what = f"reference {name!r}"
            if not count:
                yield said, EmptyInput(asset, what, "has no records")
            elif empty := source.without_header:
                yield said, EmptyInput(asset, what, f"has files without a header: {empty}")
            if self._shrank(name, count) and name not in self.doors.accounted:
                yield self._on_shrink(name), self._smaller(name, count)

    def _of_accounted(self, names: list[str]) -> Iterator[tuple[str, ThresholdExceeded]]:
        asset, thresholds = self.work.asset.name, self.work.thresholds
        counts = {name: self.doors.records_of(name) for name in names}
        for name, count in counts.items():
            if not count and (said := self.work.volume.on_empty.get(name)):
                yield said, EmptyInput(asset, f"input {name!r}")
            if self._shrank(name, count):
                yield self._on_shrink(name), self._smaller(name, count)
        said_of_all = {*counts} & {*self.work.volume.on_empty}
        if names == self._accounted and not any(counts.values()) and not said_of_all:
            yield thresholds.on_empty or "warn", EmptyInput(asset)

    def _smaller(self, name: str, count: int) -> InputShrank:
        return InputShrank(self.work.asset.name, name, count, self.work.volume.before[name])

    def _shrank(self, name: str, count: int) -> bool:
        """True if the input shrank. One that its source expects to be empty at times may be."""
        expected = not count and name in self.work.volume.on_empty
        return not expected and self.work.volume.shrank(name, count)

    def _on_empty(self, name: str, default: str) -> str:
        return self.work.volume.on_empty.get(name) or self.work.thresholds.on_empty or default

    def _on_shrink(self, name: str) -> str:
        return self.work.volume.on_shrink.get(name) or self.work.thresholds.on_shrink or "halt"
