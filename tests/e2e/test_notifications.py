"""Notifications, over a real server and a receiver that verifies each signature with a library of
others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from perdure import Client
from perdure.worker.features.notifications import records
from perdure.worker.features.notifications.client import Notifications
from perdure.worker.settings import Settings
from tests.support.notified_runs import Notifies, notifying, quick, receiver
from tests.support.redis_servers import until
from tests.support.runs import claim, commit_end
from tests.support.webhook_receiver import SECRET, Receiver, rules
from tests.support.workers import workers

__all__ = ["notifying", "quick", "receiver"]


def test_a_command_gets_the_notification_on_its_standard_input(
    client: Client, tmp_path: Path, notifying: Notifies
) -> None:
    code = (
        "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + '\\n' + sys.stdin.read() + '\\n')"
    )
    told, failing = (
        tmp_path / "told",
        "import sys; print('no such user', file=sys.stderr); sys.exit(3)",
    )
    notifying(
        mail={"on": "ended", "command": [sys.executable, "-c", code, str(told), "{text} {link}"]},
        bad={"on": "ended", "command": [sys.executable, "-c", failing]},
        none={"on": "ended", "command": ["no-such-program"]},
    )
    client.submit("countdown", "{link} $(id)", run_id="r")
    assert commit_end(client._store, claim(client._store, "r", known=("countdown",)))[0] == "ok"
    until(lambda: told.exists() and told.read_text().count("\n") == 2, "the command")
    sentence, body = told.read_text().splitlines()
    assert sentence == "Run r of countdown has completed: {link} $(id) https://x.example/p/runs/r"
    assert json.loads(body)["data"]["run_id"] == "r" and json.loads(body)["id"].startswith("msg_")
    until(lambda: len([e for e in Notifications(client).waiting() if e.error]) == 2, "two failures")
    errors = {each.rule: each.error for each in Notifications(client).waiting()}
    assert str(errors["bad"]).endswith("ended with exit code 3: no such user")
    assert "could not be started" in str(errors["none"])


def variables(receiver: Receiver, **more: object) -> dict[str, str]:
    """Return the environment of workers with this receiver."""
    return {
        "PERDURE_NOTIFY": rules(receiver, **more),
        "PERDURE_PRIVATE_WEBHOOKS": "true",
        "PERDURE_PUBLIC_URL": "https://runs.example.org/",
        "OPS_WEBHOOK_SECRET": SECRET,
    }


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_worker_is_killed_while_it_delivers_and_another_one_delivers_the_rest(
    client: Client, settings: Settings, receiver: Receiver
) -> None:
    receiver.seconds = 0.1
    with workers(2, settings, **variables(receiver)) as running:
        key = records.key(client._store.keys, "holder")
        until(lambda: client._store.redis.get(key) is not None, "a look")
        wanted = {client.submit("ledger", "g", {"rounds": 1}).id for _ in range(60)}
        until(lambda: len(receiver.ids) >= 10, "some deliveries")
        holder = client._store.redis.get(key)
        [killed] = [worker for worker in running if worker.name == holder]
        killed.kill()
        assert {data["data"]["run_id"] for _, data in receiver.accepted} != wanted
        until(
            lambda: {data["data"]["run_id"] for _, data in receiver.accepted} == wanted,
            "the rest",
            60,
        )
        until(lambda: Notifications(client).waiting() == [], "their records to go")
        ids = {data["data"]["run_id"]: set() for _, data in receiver.accepted}  # type: ignore[var-annotated]
        for message_id, data in receiver.accepted:
            ids[data["data"]["run_id"]].add(message_id)
        assert all(len(each) == 1 for each in ids.values())
