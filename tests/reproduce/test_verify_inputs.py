"""`verify inputs`: config, code and inputs, in that order; the first that is not as it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest

from tallyman.domain.definition.canonical_json import canonical_hash
from tests.reproduce.conftest import committed, edited, manifest, stored, unsealed
from tests.world.numbers import NumbersHome

DAY = "2025-01-01"


def run(home: NumbersHome, name: str, *more: str) -> None:
    home.ok("run", "+doubled", "--partition", DAY, "--run-id", name, *more)


@pytest.fixture(scope="module")
def plain(new_home: Callable[[], NumbersHome]) -> NumbersHome:
    """Without git."""
    home = new_home().numbers(DAY, 1, 2, 3)
    run(home, "first", "--thresholds", "strict", "--evidence", "digest")
    return home


def test_two_runs_of_the_same_are_bound_to_the_same_hashes(plain: NumbersHome) -> None:
    run(plain, "second", "--force", "--thresholds", "strict", "--evidence", "digest")
    first, second = (manifest(plain, name)["cryptographic_binding"] for name in ("first", "second"))
    assert first == second
    assert first["code_version"]["git_commit"] is None
    assert first["input_hashes"][f"raw[d:{DAY}]"]["hash"].startswith("sha256:")


def test_nothing_has_changed_and_the_options_of_the_command_line_count(plain: NumbersHome) -> None:
    found = plain.ok("verify", "inputs", "first")
    assert found["same"] is True
    assert found["first_difference"] is None
    assert found["checked"]["inputs"]["inputs"] == 1
    assert found["checked"]["config"]["settings"] > 10
    code, out, _ = plain.printed("verify", "inputs", "first")
    assert code == 0
    assert out.startswith("OK ")


def test_one_flipped_byte_of_an_input_is_named_with_both_hashes(plain: NumbersHome) -> None:
    raw = plain.path / "data" / DAY / "raw.jsonl"
    then = manifest(plain, "first")["cryptographic_binding"]["input_hashes"][f"raw[d:{DAY}]"]
    with edited(raw, '"n": 2', '"n": 4'):
        reply = plain.tallyman("verify", "inputs", "first")
        code, out, _ = plain.printed("verify", "inputs", "first")
    found = reply.json["first_difference"]
    assert (reply.code, found["kind"], found["name"]) == (1, "input", f"raw[d:{DAY}]")
    assert found["then"] == then
    assert found["now"]["hash"] != then["hash"]
    assert (found["now"]["files"], found["now"]["bytes"]) == (then["files"], then["bytes"])
    assert code == 1
    told = f"Input data has changed: raw[d:{DAY}] (data/{{partition}}/raw.jsonl): "
    assert f"{told}{then['hash']} then, {found['now']['hash']} now" in out


def test_an_input_that_is_gone_is_named(plain: NumbersHome) -> None:
    raw = plain.path / "data" / DAY / "raw.jsonl"
    text = raw.read_text()
    raw.unlink()
    reply = plain.tallyman("verify", "inputs", "first")
    raw.write_text(text)
    found = reply.json["first_difference"]
    assert (reply.code, found["kind"], found["now"]["hash"]) == (1, "input", None)
    assert "Input is missing" in found["message"]


def test_an_edited_threshold_is_named_before_an_edited_input(plain: NumbersHome) -> None:
    home = plain
    home.ok("run", "+doubled", "--partition", DAY, "--force", "--run-id", "by-settings")
    settings = home.path / "tallyman.yaml"
    raw = home.path / "data" / DAY / "raw.jsonl"
    more = "name: scenario\nthresholds: {absolute: 10000, percentage: 0.5}\n"
    with edited(settings, "name: scenario\n", more):
        # A run is made again with the thresholds it had.
        assert home.ok("reproduce", "by-settings")["verdict"] == "REPRODUCED"
    with edited(settings, "name: scenario\n", more), edited(raw, '"n": 2', '"n": 4'):
        found = home.tallyman("verify", "inputs", "by-settings").json["first_difference"]
        # The options of this one were given by hand: the settings mean nothing to it.
        other = home.tallyman("verify", "inputs", "first").json["first_difference"]
    assert found["kind"] == "config"
    assert found["name"] == "assets.doubled.thresholds.percentage"
    assert (found["then"], found["now"]) == (0.05, 0.5)
    assert other["kind"] == "input"


def test_without_git_an_edited_pipeline_is_told_by_the_hash_of_its_files(
    plain: NumbersHome,
) -> None:
    with edited(plain.path / "pipelines" / "p.py", "n * 2", "n * 3"):
        found = plain.tallyman("verify", "inputs", "first").json["first_difference"]
    assert (found["kind"], found["name"]) == ("code", "source_hash")
    assert found["then"] != found["now"]


def test_an_asset_that_is_no_longer_declared_is_a_setting_that_is_gone(plain: NumbersHome) -> None:
    pipeline = plain.path / "pipelines" / "p.py"
    text = pipeline.read_text()
    pipeline.write_text(text[: text.index('@tm.asset(key="id", partitioned_by=days)\ndef doubled')])
    reply = plain.tallyman("verify", "inputs", "first")
    pipeline.write_text(text)
    assert reply.code == 1
    assert reply.json["first_difference"]["name"].startswith("assets.doubled")


def test_a_manifest_that_was_changed_with_the_input_it_binds_is_told_first(
    plain: NumbersHome,
) -> None:
    [path] = (plain.path / "runs").glob("*_first/manifest.json")
    then = hashlib.sha256(path.read_bytes()).hexdigest()
    label = f"raw[d:{DAY}]"
    raw = plain.path / "data" / DAY / "raw.jsonl"
    with edited(raw, '"n": 2', '"n": 4'):
        now = plain.tallyman("verify", "inputs", "first").json["first_difference"]["now"]
        bound = manifest(plain, "first")["cryptographic_binding"]["input_hashes"][label]
        with edited(path, bound["hash"], now["hash"]):
            other = hashlib.sha256(path.read_bytes()).hexdigest()
            reply = plain.tallyman("verify", "inputs", "first")
            _, out, _ = plain.printed("verify", "inputs", "first")
            again = plain.tallyman("reproduce", "first")
    found = reply.json["first_difference"]
    assert (reply.code, found["kind"], found["name"]) == (1, "manifest", "manifest.json")
    assert (found["then"], found["now"]) == (then, other)
    told = f"manifest.json was changed since it was sealed: sha256 {then} then, {other} now"
    assert told in out
    assert (again.code, again.json["verdict"]) == (1, "NOT_REPRODUCIBLE")
    assert again.json["reasons"] == [told]


def test_a_config_that_was_changed_with_the_hash_of_it_is_told(plain: NumbersHome) -> None:
    [config] = (plain.path / "runs").glob("*_first/config.json")
    [path] = (plain.path / "runs").glob("*_first/manifest.json")
    text = config.read_text()
    bound = manifest(plain, "first")["cryptographic_binding"]["config_hash"]
    changed = json.loads(text)
    changed["assets"]["doubled"]["thresholds"]["percentage"] = 0.5
    binding = {name: value for name, value in changed.items() if name != "volatile"}
    with edited(path, bound, canonical_hash(binding)), edited(config, text, json.dumps(changed)):
        found = plain.tallyman("verify", "inputs", "first").json["first_difference"]
    assert (found["kind"], found["name"]) == ("manifest", "manifest.json")


@pytest.mark.parametrize("text", [None, "no manifest", "{}"])
def test_a_manifest_that_is_gone_or_broken_is_told(plain: NumbersHome, text: str | None) -> None:
    [path] = (plain.path / "runs").glob("*_first/manifest.json")
    kept = path.read_text()
    path.unlink()
    if text is not None:
        path.write_text(text)
    reply = plain.tallyman("verify", "inputs", "first")
    again = plain.tallyman("reproduce", "first")
    path.write_text(kept)
    found = reply.json["first_difference"]
    assert (reply.code, found["kind"], found["now"] is None) == (1, "manifest", text is None)
    assert (again.code, again.json["reasons"]) == (1, [found["message"]])


def test_of_a_run_without_a_seal_it_is_said(plain: NumbersHome) -> None:
    run(plain, "before-seals", "--force")
    assert plain.ok("verify", "inputs", "before-seals")["sealed"] is True
    unsealed(plain, "before-seals")
    assert plain.ok("verify", "inputs", "before-seals")["sealed"] is False
    code, out, _ = plain.printed("verify", "inputs", "before-seals")
    assert code == 0
    assert "not sealed" in out
    assert plain.ok("reproduce", "before-seals")["sealed"] is False


def test_a_version_that_was_read_is_checked_byte_for_byte(plain: NumbersHome) -> None:
    plain.ok("run", "doubled", "--partition", DAY, "--force", "--run-id", "of-version")
    bound = manifest(plain, "of-version")["cryptographic_binding"]["input_hashes"]
    [(name, entry)] = bound.items()
    assert (entry["kind"], plain.ok("verify", "inputs", "of-version")["same"]) == ("asset", True)
    file = stored(plain, "numbers")
    body = file.read_bytes()
    file.unlink()  # the run's folder has the same file under another name
    gone = plain.tallyman("verify", "inputs", "of-version").json["first_difference"]
    file.write_bytes(bytes([body[0] ^ 1]) + body[1:])
    flipped = plain.tallyman("verify", "inputs", "of-version").json["first_difference"]
    file.write_bytes(body)
    assert (gone["kind"], gone["name"], flipped["name"]) == ("input", name, name)
    assert "1 of its 1 files are missing" in gone["message"]
    assert "1 of its 1 files have changed" in flipped["message"]


def test_a_committed_change_is_named_with_both_commits(new_home: Callable[[], NumbersHome]) -> None:
    home = new_home().numbers(DAY, 1, 2, 3)
    then = committed(home)
    run(home, "first")
    assert home.ok("verify", "inputs", "first")["checked"]["code"]["git_commit"] == then
    (home.path / "README.md").write_text("elsewhere\n")
    elsewhere = committed(home)
    found = home.tallyman("verify", "inputs", "first").json["first_difference"]
    assert (found["kind"], found["then"], found["now"]) == ("code", then, elsewhere)
    assert "the pipeline's own files are the same" in found["message"]
    # Another commit of the same pipeline makes the same data.
    assert home.ok("reproduce", "first")["verdict"] == "REPRODUCED"

    pipeline = home.path / "pipelines" / "p.py"
    pipeline.write_text(pipeline.read_text().replace("n * 2", "n * 3"))
    now = committed(home)
    found = home.tallyman("verify", "inputs", "first").json["first_difference"]
    assert (found["then"], found["now"]) == (then, now)
    assert "own files differ" in found["message"]
    assert home.ok("reproduce", "first")["verdict"] == "REPRODUCED"
