"""Webhooks: the headers as the specification computes them, and the options of a rule."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook, WebhookVerificationError

from perdure import Settings
from perdure.worker.errors import InvalidSettings
from perdure.worker.features.notifications import FEATURE
from perdure.worker.features.notifications.notification import (
    NotDelivered,
    notification_of,
    trial_notification,
)
from perdure.worker.features.notifications.notifier import LONGEST_RETRY, retry_wait
from perdure.worker.features.notifications.rules import NotificationRule
from perdure.worker.features.notifications.senders import filled
from perdure.worker.features.notifications.webhooks import (
    secret_bytes,
    send_webhook,
    signed_headers,
)
from perdure.worker.settings import load_settings
from tests.support.pending_interrupts import NOW, a_run
from tests.support.webhook_receiver import SECRET

GOOD: dict[str, Any] = {"on": ["ended"], "webhook": "https://x.example/h", "secret": "env:S"}


def test_the_signature_is_that_of_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    # The example of the specification's reference implementations.
    monkeypatch.setenv("S", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [secret_bytes("env:S")]
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_another_library_verifies_it_and_notices_each_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("S", SECRET)
    body = json.dumps({"a": "ä"}, ensure_ascii=False).encode()
    headers = signed_headers("msg_1", int(time.time()), body, [b"x" * 32, secret_bytes("env:S")])
    assert Webhook(SECRET).verify(body, headers) == {"a": "ä"}
    for changed in ({"webhook-id": "msg_2"}, {"webhook-timestamp": str(int(time.time()) - 9)}):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(body, headers | changed)


@pytest.mark.parametrize(
    "text", ["", "whsec_", "whsec_c2hvcnQ=", "no base64 at all, but long enough!!"]
)
def test_a_secret_of_another_form_is_refused_and_not_shown(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S", text)
    with pytest.raises(NotDelivered) as refused:
        secret_bytes("env:S")
    assert (
        refused.value.concerns_receiver and text[6:] not in str(refused.value)[:60]
    ) or not text[6:]


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/", "http://10.0.0.8/", "http://169.254.169.254/latest", "https://[::1]/", "http://0.0.0.0/",
     "http://localhost/", "http://2130706433/"],
)  # fmt: skip
def test_no_connection_is_made_to_an_address_that_is_not_public(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S", SECRET)

    def connected(*_: Any, **__: Any) -> Any:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket, "create_connection", connected)
    with pytest.raises(NotDelivered, match="is not a public internet address"):
        send_webhook(url, "msg_1", b"{}", ["env:S"])


def test_a_receiver_that_replies_a_byte_at_a_time_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("S", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        over = threading.Event()

        def drip() -> None:
            with listening.accept()[0] as connection:
                while not over.wait(0.05):
                    try:
                        connection.sendall(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        port = listening.getsockname()[1]
        with pytest.raises(NotDelivered, match=r"no reply from 127\.0\.0\.1 within 0\.3 s"):
            send_webhook(
                f"http://127.0.0.1:{port}/", "m", b"{}", ["env:S"], private=True, seconds=0.3
            )
        over.set()
        thread.join(5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"on": []}, "at least 1"),
        ({"on": "never"}, "waiting"),
        ({"secret": "whsec_abc"}, "never the secret itself"),
        ({"secret": ()}, "needs a secret"),
        ({"command": ["x"]}, "one of webhook, command and task"),
        ({"webhook": None}, "one of webhook, command and task"),
        ({"webhook": "ftp://x"}, "begins with https"),
        ({"webhook": "https://ann:pw@x.example/"}, "without a user"),
        ({"queue": "q"}, "only for a task"),
        ({"patience": 0}, "greater than 0"),
        ({"sign_in": "hf_0123456789abcdef_x"}, "match"),
        ({"flows": "x"}, "Extra inputs"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words) as refused:
        NotificationRule(**GOOD | changes)
    assert "ann:pw" not in str(refused.value) and "whsec_abc" not in str(refused.value)


def test_settings_name_the_rule_that_is_wrong_and_show_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERDURE_NOTIFY", json.dumps({"ops": GOOD | {"secret": "whsec_abc"}}))
    with pytest.raises(InvalidSettings, match=r"notify\.ops\.secret") as refused:
        load_settings()
    assert "whsec_abc" not in str(refused.value)
    monkeypatch.setenv("PERDURE_NOTIFY", "{")
    with pytest.raises(InvalidSettings, match="notify"):
        load_settings()
    monkeypatch.setenv("PERDURE_NOTIFY", json.dumps({"o:p": GOOD}))
    with pytest.raises(InvalidSettings, match="notify"):
        load_settings()
    monkeypatch.setenv("PERDURE_NOTIFY", json.dumps({"ops": GOOD | {"sign_in": "0" * 16}}))
    with pytest.raises(InvalidSettings, match="needs public_url"):
        load_settings()
    monkeypatch.setenv("PERDURE_NOTIFY", json.dumps({"ops": GOOD | {"patience": "2h"}}))
    assert load_settings().notify["ops"].patience == 7200


def test_a_notification_does_not_have_the_inputs_of_a_run_without_a_goal() -> None:
    run = replace(a_run("question", epoch=1), goal="", inputs={"city": "Oslo"})
    assert "Oslo" in run.title
    notification = notification_of("rule", "interrupted", run, None, NOW)
    assert "Oslo" not in json.dumps(notification.body)


def test_settings_without_rules_start_no_notifier() -> None:
    from perdure.worker.app import engine_of, make_app

    engine = engine_of(make_app(Settings(redis_url="redis://localhost:1")))
    assert FEATURE.background(engine) is None


def test_waits_double_up_to_an_hour() -> None:
    waits = [retry_wait(attempts) for attempts in range(30)]
    assert all(0.9 * 5 * 2**n <= wait <= 1.1 * 5 * 2**n for n, wait in enumerate(waits[:9]))
    assert max(waits) <= 1.1 * LONGEST_RETRY and min(waits[12:]) >= 0.9 * LONGEST_RETRY


def test_a_fact_in_an_argument_is_not_searched_for_facts() -> None:
    assert filled("{text}: {link} {other}", {"text": "{link}", "link": "L"}) == "{link}: L {other}"


def test_a_notification_is_read_as_it_was_stored() -> None:
    made = trial_notification("ops", "msg_1", NOW).failed("why", NOW)
    assert type(made).unpacked(made.packed()) == made
