"""Compare what a result says it read with the versions that the registry records."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.materialization import Materialization
from tallyman.registry.database import Transaction
from tallyman.registry.run.reads import Reads
from tallyman.registry.run.replays import Replays
from tallyman.registry.run.runs import Runs


def differing_versions(
    tx: Transaction, made: Materialization, ledger: StoredLedger
) -> Iterator[str]:
    """Yield a reason for each input of which the result, or its ledger, names something else than
    the version that its run had to read."""
    recorded: dict[str, list[UUID]] = {}
    datasets: dict[str, UUID] = {}
    for read in Reads(tx).inputs(made.id):
        if read.fragment_id is not None and read.dataset_id is not None:
            recorded.setdefault(read.name, []).append(read.fragment_id)
            datasets[read.name] = read.dataset_id
    stated = {version.input: version for version in ledger.versions}
    for name in dict.fromkeys([*stated, *recorded]):
        if name not in stated or name not in recorded:
            where = "the registry" if name in stated else "its ledger"
            yield f"{made.target}: {where} does not say which version of {name} it read"
            continue
        expected = list(_expected(tx, made, name, datasets[name]))
        if not any(_same(stated[name], recorded[name], one) for one in expected):
            yield f"{made.target}: it read {_extent(stated[name])}; {_extent(expected[0])} recorded"


def _expected(
    tx: Transaction, made: Materialization, name: str, dataset: UUID
) -> Iterator[InputVersion]:
    """Yield what its run had to read, and for a replay what the first run had to read: of records
    that it accounts for, that is what it reads."""
    partitions = {str(one["name"]): one["partition"] for one in made.metadata.get("inputs", ())}
    line = Replays(tx).line(made.id)
    for run in dict.fromkeys([made.run_id, *(link.run_id for link in line[:1])]):
        ordinal = Runs(tx).by_id(run).pins.get(dataset, 0)
        yield Reads(tx).expected(name, dataset, partitions.get(name), ordinal, run)


def _same(stated: InputVersion, recorded: list[UUID], expected: InputVersion) -> bool:
    fragments = sorted(expected.fragments)
    named = fragments == sorted(recorded) == sorted(stated.fragments)
    return named and (stated.rows, stated.dataset) == (expected.rows, expected.dataset)


def _extent(version: InputVersion) -> str:
    return f"{version.extent} of {version}"
