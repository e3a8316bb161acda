"""`doctor` and `status`: is there a server, has it workers, and does work wait?"""

from __future__ import annotations

from pathlib import Path

from tests.operate.shop import Shop
from tests.world.waiting import wait_until


def checks(shop: Shop) -> dict[str, tuple[bool, str]]:
    found = shop.home.tallyman("doctor").json
    return {row["check"]: (row["ok"], row["found"]) for row in found}


def test_doctor_says_whether_a_server_and_workers_are_there(shop: Shop, tmp_path: Path) -> None:
    assert {"server", "tasks"} & set(checks(shop)) == set()
    place = f"unix:{tmp_path / 'socket'}"
    settings = shop.folder / "tallyman.yaml"
    settings.write_text(settings.read_text() + f"server: {place}\n")
    good, text = checks(shop)["server"]
    assert (good, "it does not answer" in text, "run: tallyman server" in text) == (
        False,
        True,
        True,
    )
    server = shop.server("--workers", "0", bind=place)
    good, text = checks(shop)["server"]
    assert (good, text) == (False, f"{place}, 0 workers; run: tallyman worker --help")
    server.drained()
    task, gate = shop.held(asset="person")
    shop.server("--workers", "1", bind=place)
    gate.reached()
    shop.add(asset="person")
    assert checks(shop)["server"] == (True, f"{place}, 1 worker")
    good, text = checks(shop)["tasks"]
    assert (good, text.startswith("1 queued, 1 running, oldest for ")) == (True, True)
    gate.open()
    shop.finished(task)
    wait_until(lambda: checks(shop)["tasks"] == (True, "none"))


def test_doctor_names_tasks_that_nobody_takes(shop: Shop) -> None:
    task = shop.add()
    assert checks(shop)["tasks"][0] is True
    with shop.project.database.transaction() as tx:
        tx.execute("UPDATE tasks SET created_at = created_at - interval '2 minutes'")
    good, text = checks(shop)["tasks"]
    assert (good, "nobody takes them, run: tallyman server" in text) == (False, True)
    shop.home.ok("tasks", "hold", str(task))
    assert checks(shop)["tasks"] == (True, "1 held")


def test_something_else_at_the_address_of_the_server_is_named(shop: Shop) -> None:
    settings = shop.folder / "tallyman.yaml"
    text = settings.read_text()
    settings.write_text(text + "server: ftp://x\n")
    reply = shop.home.printed("doctor")
    assert "server: expected http://host:port, https://host or unix:path, not 'ftp://x'" in str(
        reply
    )
    settings.write_text(text + "server: http://192.0.2.1:1\n")
    reply = shop.home.printed("runs")
    assert (reply.code, "http:// is not encrypted" in reply.stderr) == (2, True)
    assert shop.home.printed("runs", TALLYMAN_INSECURE="1").code == 0
    settings.write_text(text + "server: http://127.0.0.1:1\n")
    assert "it does not answer" in checks(shop)["server"][1]
