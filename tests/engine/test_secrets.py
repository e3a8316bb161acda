"""The password of a database stays where it was written."""

from __future__ import annotations

from collections.abc import Callable

from tests.engine.conftest import Workshop

PASSWORD = "correct-horse-9274"


def test_no_file_of_a_run_holds_the_password_of_the_database(
    workshop: Callable[..., Workshop],
) -> None:
    shop = workshop(interpreted=True).lines("a.jsonl", [{"id": "1"}])
    shop.pipeline(
        'a = tm.source("a", path="data/a.jsonl", format="json", key="id", schema="id string")\n'
        "@tm.asset(key='id')\ndef b(a):\n    return a\n"
    )
    settings = shop.home / "tallyman.yaml"
    settings.write_text(settings.read_text().replace("tallyman@", f"tallyman:{PASSWORD}@"))
    assert PASSWORD in settings.read_text()
    ran = shop.run()
    assert ran.result.exit_code == 0
    files = [path for path in shop.home.rglob("*") if path.is_file()]
    holding = [path.name for path in files if PASSWORD.encode() in path.read_bytes()]
    assert holding == ["tallyman.yaml"]
    assert any(path.name == "config.json" for path in files)
    told = repr(ran.project.settings) + str(ran.result.to_json()) + ran.project.database.place
    assert PASSWORD not in told
