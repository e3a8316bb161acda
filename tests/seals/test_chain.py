"""All seals of a project, from the first: the first link that does not hold is named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tallyman.domain.history.seal import Seal
from tallyman.domain.version.owner import Owner
from tallyman.project import Project
from tallyman.registry.seals import Seals
from tests.seals.conftest import SealedHome, written
from tests.world.waiting import wait_until


@pytest.fixture(scope="module")
def project(shop: SealedHome) -> Iterator[Project]:
    with Project.open(shop.path) as opened:
        yield opened


@pytest.fixture(scope="module")
def rows(shop: SealedHome) -> list[dict[str, Any]]:
    """The first four seals: tests beside these may add more."""
    names = ("ordinal", "hash", "previous", "body")
    found = shop.owner(f"SELECT {', '.join(names)} FROM seals ORDER BY ordinal LIMIT 4")
    return [dict(zip(names, row, strict=True)) for row in found]


def broken(project: Project, head: str | None = None) -> tuple[int, str | None, str] | None:
    found = project.chain(head).broken
    return (found.ordinal, found.run, found.what) if found else None


def changed(seal: Seal, ordinal: int) -> str:
    """The row of a seal as somebody wants it to be, its hash worked out anew."""
    body = seal.text.replace("'", "''")
    key = f"'{seal.signature.key}'" if seal.signature else "NULL"
    return (
        f"UPDATE seals SET body = '{body}', hash = '{seal.hash}', key_id = {key} "
        f"WHERE ordinal = {ordinal}"
    )


def test_an_untouched_chain_is_intact_and_its_head_is_told(
    shop: SealedHome, rows: list[dict[str, Any]]
) -> None:
    said = shop.ok("verify", "chain")
    assert (said["intact"], said["broken"]) == (True, None)
    assert said["seals"] - said["signed"] == 2  # those before the keys
    [(ordinal, last)] = shop.owner("SELECT ordinal, hash FROM seals ORDER BY ordinal DESC LIMIT 1")
    assert said["head"] == {"ordinal": ordinal, "hash": last}
    for row in rows:
        assert shop.ok("verify", "chain", "--head", row["hash"])["intact"]
    assert shop.ok("verify", "chain", "--head", rows[0]["hash"].removeprefix("sha256:"))
    code, text, _ = shop.printed("verify", "chain")
    assert (code, text.splitlines()[-1]) == (0, f"head     no. {ordinal}   {last}")


def test_each_seal_names_the_one_before_it_by_the_hash_of_its_file(
    shop: SealedHome, rows: list[dict[str, Any]]
) -> None:
    files = [
        shop.folder("first") / "attempts" / "1" / "seal.json",
        *(shop.folder(run) / "seal.json" for run in ("first", "second", "third")),
    ]
    for row, path in zip(rows, files, strict=True):
        assert path.read_text() == row["body"]
        assert json.loads(row["body"])["previous"] == row["previous"]
    assert [row["previous"] for row in rows] == [None, *(row["hash"] for row in rows[:-1])]


def test_an_edited_seal_in_the_registry_is_the_broken_link(
    shop: SealedHome, project: Project, rows: list[dict[str, Any]]
) -> None:
    edit = "UPDATE seals SET body = replace(body, 'success', 'failure') WHERE ordinal = 3"
    with shop.forged(edit):
        assert broken(project) == (3, "second", "the seal in the registry was changed")
        reply = shop.tallyman("verify", "chain")
        assert reply.code == 1
        assert reply.json["broken"]["expected"] == rows[2]["hash"]
        assert reply.json["broken"]["found"] not in (rows[2]["hash"], None)
        verdict = project.verify("second")
        assert not verdict.verified
    assert broken(project) is None


def test_a_body_that_is_no_seal_stops_nothing_but_the_chain(
    shop: SealedHome, project: Project
) -> None:
    forged = "UPDATE seals SET body = '[', hash = 'sha256:' || encode(sha256('['), 'hex') "
    with shop.forged(f"{forged} WHERE ordinal = 2"):
        assert broken(project) == (2, "first", "what the registry has is not a seal")
        assert not project.verify("first").verified


def test_a_seal_written_anew_with_its_hash_does_not_fit_the_next(
    shop: SealedHome, project: Project, rows: list[dict[str, Any]]
) -> None:
    seal = Seal.of_text(rows[1]["body"])
    forged = Seal.of_text(seal.text.replace('"status": "success"', '"status": "failed"'))
    assert forged.hash != seal.hash
    with (
        shop.forged(changed(forged, 2)),
        written(shop.folder("first") / "seal.json", forged.text.encode()),
    ):
        assert broken(project) == (3, "second", "it does not follow the seal before it")


def test_a_seal_that_was_taken_out_of_the_middle_is_missing(
    shop: SealedHome, project: Project
) -> None:
    with shop.forged("DELETE FROM seals WHERE ordinal = 2"):
        assert broken(project) == (2, None, "a seal is missing")
    # Numbered anew, so that none seems to be missing:
    away = "UPDATE seals SET ordinal = ordinal + 999 WHERE ordinal > 2"
    back = "UPDATE seals SET ordinal = ordinal - 1000 WHERE ordinal > 2"
    with shop.forged("DELETE FROM seals WHERE ordinal = 2", away, back):
        assert broken(project) == (2, "second", "it does not follow the seal before it")


def test_a_seal_of_another_run_in_the_folder_is_found(shop: SealedHome, project: Project) -> None:
    other = (shop.folder("third") / "seal.json").read_bytes()
    place = shop.folder("second") / "seal.json"
    with written(place, other):
        found = broken(project)
        reply = shop.tallyman("verify", "second")
    assert found == (
        3,
        "second",
        f"runs/{place.parent.name}/seal.json is not the seal in the registry",
    )
    assert reply.json["first_changed"]["file"] == "seal.json"
    with written(place, None):
        assert broken(project) == (3, "second", f"runs/{place.parent.name}/seal.json is missing")
    aside = shop.folder("first") / "attempts" / "1" / "seal.json"
    with written(aside, other):
        what = f"runs/{shop.folder('first').name}/attempts/1/seal.json is not a seal of this run"
        assert broken(project) == (2, "first", what)


def test_only_a_noted_head_tells_that_the_end_was_cut_off(
    shop: SealedHome, project: Project, rows: list[dict[str, Any]]
) -> None:
    noted = rows[3]["hash"]
    with shop.forged("DELETE FROM seals WHERE ordinal >= 4"):
        assert broken(project) is None
        what = "the chain was cut off or rewritten since this hash was noted"
        assert broken(project, noted) == (4, None, what)
        reply = shop.tallyman("verify", "chain", "--head", noted)
        assert reply.code == 1
    assert broken(project, noted) is None


def test_a_head_that_is_no_hash_is_refused(shop: SealedHome) -> None:
    reply = shop.tallyman("verify", "chain", "--head", "12ab")
    assert (reply.code, reply.json["error"]["code"]) == (2, "usage_error")
    for words in (("--head", "0" * 64), ("third", "chain")):
        assert shop.tallyman("verify", *words).code == 2


def test_a_seal_without_a_signature_after_a_signed_one_is_a_broken_link(
    shop: SealedHome, project: Project, rows: list[dict[str, Any]]
) -> None:
    for row in rows[2:]:
        body = json.loads(row["body"])
        del body["signature"]
        bare = Seal.of_text(json.dumps(body))
        with shop.forged(
            f"DELETE FROM seals WHERE ordinal > {row['ordinal']}", changed(bare, row["ordinal"])
        ):
            run = "second" if row["ordinal"] == 3 else "third"
            with written(shop.folder(run) / "seal.json", bare.text.encode()):
                found = broken(project)
                if row["ordinal"] == 4:
                    assert found == (4, "third", "it is not signed, and an earlier one is")
                    assert not project.verify(run).verified
                else:
                    # Whoever takes all signatures away leaves a chain that looks older than keys.
                    assert found is None


def test_a_seal_signed_by_nobody_we_know_is_a_broken_link(
    shop: SealedHome, project: Project, rows: list[dict[str, Any]]
) -> None:
    [key] = (shop.path / "keys").glob("*.pub")
    with written(key, None):
        assert broken(project) == (3, "second", "its signature is not valid")
        found = project.chain().broken
        assert found is not None
        assert found.found == f"a signature by key {key.stem}, which is not in keys/"
    seal = Seal.of_text(rows[3]["body"])
    forged = Seal.of_text(seal.text.replace("T", "t", 1).replace('"third"', '"other"'))
    last = "DELETE FROM seals WHERE ordinal > 4"
    rename = "UPDATE runs SET name = 'other' WHERE name = 'third'"
    back = "UPDATE runs SET name = 'third' WHERE name = 'other'"
    path = shop.folder("third") / "seal.json"
    with shop.forged(last, changed(forged, 4), rename), written(path, forged.text.encode()):
        assert broken(project) == (4, "other", "its signature is not valid")
        shop.owner(back)


def test_a_removed_folder_is_gone_and_the_chain_holds_without_it(
    shop: SealedHome, project: Project
) -> None:
    folder, aside = shop.folder("second"), shop.path / "aside"
    os.rename(folder, aside)
    try:
        said = shop.ok("verify", "chain")
        _, text, _ = shop.printed("verify", "chain")
    finally:
        os.rename(aside, folder)
    assert (said["intact"], said["gone"]) == (True, ["second"])
    assert "1 run folder is missing; its seal was read from the registry: second" in text


def test_a_seal_waits_for_the_one_that_is_being_added(shop: SealedHome, project: Project) -> None:
    """Both would else name the same seal before them."""
    run = project.find_run("third").id
    owner = Owner("default", "forks")
    seal = Seal(
        project="forks",
        run_id="third",
        openlineage_run_id=str(run),
        status="success",
        sealed_at="2026-01-01T00:00:00.000000Z",
        files={"a": "0"},
    )
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as pool:
        try:
            with project.database.transaction() as tx:
                first = Seals(tx).add(owner, seal, run)
                other = replace(seal, files={"b": "0"})
                later = pool.submit(
                    project.database.durably, lambda tx: Seals(tx).add(owner, other, run)
                )
                wait_until(lambda: shop.owner(waiting) == [(1,)])
            second = later.result()
        finally:
            shop.owner("DELETE FROM seals WHERE project = 'forks'")
    assert (first.ordinal, first.previous) == (1, None)
    assert (second.ordinal, second.previous) == (2, first.hash)


def test_a_run_that_was_killed_when_it_was_sealed_gets_its_file_from_the_registry(
    shop: SealedHome, project: Project
) -> None:
    killed = shop.tallyman("run", "--run-id", "sealed", TALLYMAN_CRASH_AT="sealed")
    assert killed.code == -9, str(killed)
    assert not (shop.folder("sealed") / "seal.json").exists()
    assert shop.ok("verify", "sealed")["verified"]
    assert (shop.folder("sealed") / "seal.json").exists()
    assert broken(project) is None


@pytest.fixture
def copies(shop: SealedHome, tmp_path: Path, empty_database: Callable[[], str]) -> Project:
    """The folders of both runs in a project that never ran them."""
    (tmp_path / "tallyman.yaml").write_text(f"name: shop\ndatabase: {empty_database()}\n")
    shutil.copytree(shop.path / "pipelines", tmp_path / "pipelines")
    shutil.copytree(shop.path / "keys", tmp_path / "keys")
    for run in ("first", "second"):
        shutil.copytree(shop.folder(run), tmp_path / "runs" / shop.folder(run).name)
    return Project.open(tmp_path)


def test_a_copied_run_is_verified_by_its_own_seal(copies: Project, shop: SealedHome) -> None:
    [key] = (shop.path / "keys").glob("*.pub")
    home = copies.settings.home
    with copies:
        found = copies.verify("second")
        assert (found.verified, found.sealed.signed_by) == (True, key.stem)
        [folder] = (home / "runs").glob("*_second")
        assert copies.verify(folder.name).verified
        # A copy of a run without a signature could have been made by anybody.
        [reason] = copies.verify("first").reasons
        assert reason.startswith("seal.json: no signature")
        shutil.rmtree(home / "keys")
        assert copies.verify("first").verified
        [reason] = copies.verify("second").reasons
        assert reason == f"seal.json: a signature by key {key.stem}, which is not in keys/"


def test_a_copied_run_with_a_forged_seal_is_not_verified(copies: Project) -> None:
    [folder] = (copies.settings.home / "runs").glob("*_second")
    path = folder / "seal.json"
    text = path.read_text()
    seal = json.loads(text)
    config = folder / "config.json"
    other = dict(seal["signature"], value="A" * 86 + "==")
    bare = {k: v for k, v in seal.items() if k != "signature"}
    forged = {
        "seal.json: a signature that key": [
            seal | {"status": "failed"},
            seal | {"files": dict(seal["files"], **{"config.json": "0" * 64})},
            seal | {"signature": other},
            seal | {"signature": dict(other, value="not base64")},
        ],
        "seal.json: a signature by key 0123": [
            seal | {"signature": dict(other, key="0123456789abcdef")}
        ],
        "seal.json: a signature with the unknown algorithm 'rsa'": [
            seal | {"signature": dict(other, algorithm="rsa")}
        ],
        "seal.json: no signature": [bare],
        "seal.json is not a valid seal": [
            seal | {"signature": 3},
            seal | {"files": [1]},
            seal | {"ordinal": "3"},
            seal | {"reused": None, "seal_version": "7"},
        ],
    }
    with copies:
        for reason, seals in forged.items():
            for one in seals:
                with written(path, (json.dumps(one, indent=2, ensure_ascii=False) + "\n").encode()):
                    verdict = copies.verify(folder.name)
                assert not verdict.verified
                assert any(r.startswith(reason) for r in verdict.reasons), verdict.reasons
        for raw in (text[:-1], text.replace("  ", "   ", 1), "", "{", "null", "[[[", text * 2):
            with written(path, raw.encode()):
                verdict = copies.verify(folder.name)
            assert verdict.to_json()["first_changed"]["file"] == "seal.json"  # type: ignore[index]
        # Careful: the file and its hash in the seal, which the signature does not follow.
        with written(config, b"{}"):
            assert copies.verify(folder.name).to_json()["changed_files"] == ["config.json"]
        assert copies.verify(folder.name).verified
