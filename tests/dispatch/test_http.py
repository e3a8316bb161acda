"""The internal listener, over real HTTP: who may call, what is answered, and twice the same."""

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tallyman.control.dispatch import operate
from tallyman.control.dispatch.claim import Claimed, claim
from tallyman.errors import CallRefused, UsageError
from tallyman.registry.task.worker_tokens import WorkerTokens
from tallyman.server.serve import listen
from tallyman.settings import Secret
from tallyman.worker.client import ServerClient
from tests.dispatch import processes
from tests.dispatch.desk import Desk
from tests.world.waiting import wait_until

CLAIM, EVENTS = "/internal/task-claim", "/internal/events"
BEAT, COMPLETE = "/internal/heartbeat", "/internal/task-complete"


@pytest.fixture(scope="module")
def place(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = processes.server(address, tmp_path_factory.mktemp("server"))
    yield started.first
    assert started.drained() == "drained"


@pytest.fixture
def client(desk: Desk, place: str) -> Iterator[ServerClient]:
    made = ServerClient(place, Secret(desk.token(f"w-{uuid4()}")))
    yield made
    made.close()


def get(place: str, path: str, token: str = "") -> tuple[int, str, str]:
    request = urllib.request.Request(f"{place}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def refused(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(CallRefused) as caught:
        call()
    return caught.value.status, caught.value.problem


def test_a_task_from_event_to_event_and_every_call_twice(desk: Desk, client: ServerClient) -> None:
    first, second = uuid4(), uuid4()
    desk.listen(first, "clean")
    desk.listen(second, "totals")
    desk.add(asset="feed")

    def claimed() -> dict[str, Any]:
        answer = client.post(CLAIM, {"worker_id": str(uuid4()), "wait_s": 20})
        assert answer["status"] == "Claimed", answer
        return answer

    def fence(answer: dict[str, Any]) -> dict[str, Any]:
        return {
            "task_id": answer["task"]["task_id"],
            "attempt": answer["attempt"],
            "lease_token": answer["lease_token"],
        }

    feed = claimed()
    assert "lease_token" not in feed["task"]
    assert client.post(BEAT, fence(feed))["cancel_requested"] is False
    emitted = {**fence(feed), "events": [{"dataset_uuid": str(first), "cursor": "1"}]}
    assert client.post(EVENTS, emitted) == {"accepted": 1, "duplicates": 0}
    clean = claimed()  # while the feed goes on
    scope = {"dataset_uuid": str(second), "partition_key": "0-99", "start": 0, "end": 99}
    last = {**fence(clean), "status": "Completed", "events": [scope]}
    done = client.post(COMPLETE, last)
    assert done == {"status": "Completed", "duplicate": False, "accepted": 1, "duplicates": 0}
    totals = claimed()
    assert totals["task"]["scope"] == {
        "partition_key": "0-99", "cursor": None, "start": 0, "end": 99,
    }  # fmt: skip
    assert client.post(COMPLETE, {**fence(totals), "status": "Completed"})["status"] == "Completed"
    [more] = desk.add(asset="more")
    lost = {"worker_id": "once"}
    first = client.post(CLAIM, {**lost, "wait_s": 20})
    assert first["task"]["task_id"] == str(more)
    before = desk.counts()
    assert client.post(EVENTS, emitted) == {"accepted": 0, "duplicates": 1}
    assert client.post(COMPLETE, last)["duplicate"] is True
    assert client.post(CLAIM, {**lost, "answer_lost": True}) == first
    again = {"worker_id": "two", "task_id": clean["task"]["task_id"]}
    assert client.post(CLAIM, again) == {"status": "NotClaimed", "reason": "Completed"}
    assert client.post(CLAIM, {"worker_id": "two"}) == {"status": "NotClaimed", "reason": "Empty"}
    assert desk.counts() == before
    late = {**fence(feed), "attempt": 1, "lease_token": str(uuid4()), "status": "Completed"}
    assert refused(lambda: client.post(COMPLETE, late)) == (409, "stale_attempt")
    assert client.post(COMPLETE, {**fence(feed), "status": "Completed"})["duplicate"] is False
    assert refused(lambda: client.post(EVENTS, emitted)) == (409, "stale_attempt")


def test_a_fetch_changes_nothing_and_gives_no_lease(desk: Desk, place: str) -> None:
    token = desk.token("fetcher")
    [task, gone] = desk.add(2)
    desk.claim(task)
    with desk.database.transaction() as tx:
        operate.cancel(tx, desk.owner, gone)
    before = desk.rows("SELECT t::text FROM tasks t ORDER BY id")
    for _ in range(10):
        status, kind, body = get(place, f"/internal/task-fetch?task_id={task}", token)
        assert (status, kind) == (200, "application/json")
        assert json.loads(body)["status"] == "Running"
        assert "lease_token" not in body
    assert desk.rows("SELECT t::text FROM tasks t ORDER BY id") == before
    _, _, body = get(place, f"/internal/task-fetch?task_id={gone}", token)
    assert json.loads(body)["status"] == "Canceled"
    status, kind, body = get(place, f"/internal/task-fetch?task_id={uuid4()}", token)
    assert (status, kind) == (404, "application/problem+json")
    assert json.loads(body)["code"] == "not_found"


def test_the_variables_of_a_slot_reach_only_who_claimed_the_task(
    desk: Desk, place: str, client: ServerClient
) -> None:
    desk.pool("api", [{"API_KEY": "very secret"}])
    [task] = desk.add(pool="api")
    answer = client.post(CLAIM, {"worker_id": "w", "task_id": str(task)})
    assert answer["task"]["slot"]["env"] == {"API_KEY": "very secret"}
    _, _, body = get(place, f"/internal/task-fetch?task_id={task}", desk.token("curious"))
    assert json.loads(body)["slot"] == {"pool": "api", "index": 0, "env": {}}


def test_a_claim_whose_first_call_still_waited_gets_what_that_claimed(
    desk: Desk, place: str, client: ServerClient
) -> None:
    [task] = desk.add()
    [held] = desk.rows("SELECT name FROM worker_tokens ORDER BY created_at DESC LIMIT 1")

    def call_again() -> dict[str, Any]:
        answer = client.post(CLAIM, {"worker_id": "w", "wait_s": 2, "answer_lost": True})
        client.close()  # the connection of this thread
        return answer

    with desk.database.transaction() as tx:
        operate.hold(tx, desk.owner, [task], "not yet")
    with ThreadPoolExecutor(1) as threads:
        again = threads.submit(call_again)
        here = f'tallyman_workers{{pipeline="{desk.owner}"}} 1'
        wait_until(lambda: here in get(place, "/metrics")[2])
        with desk.database.transaction() as tx:  # as the call does that nobody listens to
            tx.execute("UPDATE tasks SET held_by = NULL")  # nobody is woken
            assert isinstance(claim(tx, desk.owner, task, f"{held['name']}/w"), Claimed)
        assert again.result(60)["task"]["task_id"] == str(task)


def announced(place: str, length: int | None, token: str = "", mib: int = 0) -> int:
    """Send the head of a call, and so much of its body; return the status of the answer."""
    call = http.client.HTTPConnection(place.removeprefix("http://"), timeout=60)
    call.putrequest("POST", COMPLETE)
    call.putheader("Content-Type", "application/json")
    if token:
        call.putheader("Authorization", f"Bearer {token}")
    if length is None:
        call.putheader("Transfer-Encoding", "chunked")
    else:
        call.putheader("Content-Length", str(length))
    call.endheaders()
    for _ in range(mib):
        call.send(b"%x\r\n%b\r\n" % (1 << 20, b" " * (1 << 20)))
    try:
        return call.getresponse().status
    finally:
        call.close()


def test_who_calls_and_how_much_is_decided_before_a_body_is_read(desk: Desk, place: str) -> None:
    token, most = desk.token("talks"), 32 << 20
    assert announced(place, most) == 401  # nothing of the body was sent
    assert announced(place, most, "tmw_guessed") == 401
    assert announced(place, most, "tm_a-user") == 403
    assert announced(place, most + 1, token) == 413
    assert announced(place, None, token, mib=33) == 413
    bad = urllib.request.Request(f"{place}{COMPLETE}", b"{bad", method="POST")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(bad)
    with caught.value as error:
        assert (error.code, json.loads(error.read())["code"]) == (401, "token_missing")


def test_only_workers_may_call_and_only_for_their_own_pipeline(desk: Desk, place: str) -> None:
    [task] = desk.add()
    path = f"/internal/task-fetch?task_id={task}"
    assert get(place, path)[0] == 401
    assert get(place, path, "tmw_guessed")[0] == 401
    status, kind, body = get(place, path, "tm_a-user")
    assert (status, kind) == (403, "application/problem+json")
    assert json.loads(body)["code"] == "not_a_worker"
    token = desk.token("leaves")
    assert get(place, path, token)[0] == 200
    stranger = desk.owner.__class__("default", "another project")
    with desk.database.transaction() as tx:
        foreign = WorkerTokens(tx).add(stranger, f"w-{uuid4()}")
        stored = tx.execute("SELECT token_hash FROM worker_tokens").fetchall()
        assert WorkerTokens(tx).revoke(desk.owner, "leaves")
    assert token.encode() not in b"".join(row["token_hash"] for row in stored)
    assert get(place, path, foreign)[0] == 404  # not even that it exists
    wait_until(lambda: get(place, path, token)[0] == 401)


def test_wrong_calls_are_answered_with_a_problem_and_change_nothing(
    desk: Desk, client: ServerClient
) -> None:
    [task] = desk.add()
    held = desk.claim(task)
    fence = {"task_id": str(task), "attempt": 1, "lease_token": str(held.lease_token)}
    dataset = str(uuid4())
    wrong: list[tuple[str, dict[str, Any]]] = [
        (CLAIM, {}),
        (CLAIM, {"worker_id": "w", "wait_s": 1e9}),
        (CLAIM, {"worker_id": "w", "surprise": 1}),
        (COMPLETE, {**fence, "status": "Perfect"}),
        (COMPLETE, {**fence, "status": "Completed", "attempt": 0}),
        (EVENTS, {**fence, "events": [{"dataset_uuid": "x"}]}),
        (EVENTS, {**fence, "events": [{"dataset_uuid": dataset, "start": 5}]}),
        (EVENTS, {**fence, "events": [{"dataset_uuid": dataset, "start": 5, "end": 4}]}),
        (EVENTS, {**fence, "events": [{"dataset_uuid": dataset, "cursor": ""}]}),
        (EVENTS, {**fence, "events": [{"dataset_uuid": dataset, "start": 2**63, "end": 2**63}]}),
    ]
    before = desk.counts()
    for path, body in wrong:
        status, problem = refused(lambda path=path, body=body: client.post(path, body))
        assert status == 422, (path, body)
        assert problem in ("invalid_request", "usage_error")
    nul = {**fence, "events": [{"dataset_uuid": dataset, "cursor": "a\x00b"}]}
    assert refused(lambda: client.post(EVENTS, nul))[0] == 422
    assert refused(lambda: client.post("/internal/nothing", {})) == (404, "not_found")
    assert desk.counts() == before


def test_health_figures_and_the_description_of_the_interface(desk: Desk, place: str) -> None:
    desk.pool("api", [{}, {}])
    [task] = desk.add(pool="api")
    desk.claim(task)
    assert json.loads(get(place, "/healthz")[2]) == {"status": "ok"}
    assert json.loads(get(place, "/readyz")[2])["status"] == "ready"
    status, kind, text = get(place, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) .+|tallyman_\w+\{\w+="[^"]*"\} \d+', line), line
    assert 'tallyman_tasks{status="Running"} 1' in text
    assert f'tallyman_pool_slots_used{{pool="default/{desk.owner.project}/api"}} 1' in text
    described = json.loads(get(place, "/internal/openapi.json")[2])
    assert {path for path in described["paths"] if path.startswith("/internal/")} == {
        CLAIM, EVENTS, BEAT, COMPLETE, "/internal/task-fetch",
    }  # fmt: skip


def test_the_listener_stays_on_this_machine(tmp_path: Path) -> None:
    for bind in ("0.0.0.0:0", "192.0.2.1:80", "example.com:80"):
        with pytest.raises(UsageError, match="unencrypted"):
            listen(bind, remote=False)
    for bind in ("127.0.0.1", "127.0.0.1:x", ":80", "127.0.0.1:99999"):
        with pytest.raises(UsageError, match="host:port"):
            listen(bind, remote=False)
    path = tmp_path / "socket"
    for _ in range(2):  # the second finds what a killed one left
        opened, address = listen(f"unix:{path}", remote=False)
        assert address == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        opened.close()


def test_a_token_goes_unencrypted_to_this_machine_only() -> None:
    token = Secret("tmw_x")
    for address in ("http://192.0.2.1:7401", "http://tallyman.example", "http://[2001:db8::1]:7"):
        with pytest.raises(UsageError, match=r"not encrypted.*--insecure"):
            ServerClient(address, token)
        assert ServerClient(address, token, insecure=True).address == address
    for address in (
        "http://127.0.0.2:1",
        "http://localhost",
        "http://[::1]:7",
        "https://x",
        "unix:s",
    ):
        assert ServerClient(address, token).address == address
    for address in ("http://a:b@localhost:1", "http://", "ftp://localhost", "localhost:7401"):
        with pytest.raises(UsageError, match="expected http://host:port"):
            ServerClient(address, token, insecure=True)
