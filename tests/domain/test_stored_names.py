"""The names of what is stored in JSON are known to the file that reads and writes it, only."""

from __future__ import annotations

from pathlib import Path

import pytest

import tallyman

SOURCES = Path(tallyman.__file__).parent
LEDGER = (
    "accounting_balanced",
    "adjoint_location",
    "adjoint_type",
    "input_accounting",
    "measured_on",
    "output_accounting",
    "partition_type",
    "source_key_field",
    "verification_query",
)
MANIFEST = (
    "cryptographic_binding",
    "execution_metadata",
    "output_locations",
    "processing_window",
)
HOMES = {
    **dict.fromkeys(LEDGER, "domain/account/ledger_json.py"),
    **dict.fromkeys(MANIFEST, "domain/history/manifest.py"),
}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    files = SOURCES.rglob("*.py")
    return {str(file.relative_to(SOURCES)): file.read_text(encoding="utf-8") for file in files}


@pytest.mark.parametrize("name", HOMES)
def test_a_stored_name_has_one_home(name: str, texts: dict[str, str]) -> None:
    quoted = (f'"{name}"', f"'{name}'")
    found = [file for file, text in texts.items() if any(one in text for one in quoted)]
    assert found == [HOMES[name]]
