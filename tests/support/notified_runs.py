"""Rules of notifications, and a receiver of the notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from perdure import Client
from perdure.worker.app import make_app
from perdure.worker.features.notifications import notifier as notifiers
from perdure.worker.features.notifications import records
from perdure.worker.features.notifications.notifier import Notifier
from perdure.worker.features.notifications.rules import NotificationRule
from perdure.worker.features.notifications.senders import NotificationSender
from perdure.worker.settings import Settings
from tests.support.redis_servers import until
from tests.support.webhook_receiver import SECRET, Receiver, listening


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("OPS_WEBHOOK_SECRET", SECRET)
    with listening(Receiver()) as made:
        yield made
        assert made.forged == 0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and attempts follow each other without long waits."""
    for name, value in {"LOOK_SECONDS": 0.02, "RETRY_SECONDS": 0.05, "REST_SECONDS": 0.02}.items():
        monkeypatch.setattr(notifiers, name, value)
    monkeypatch.setattr(notifiers, "LONGEST_REST", 0.1)


Notifies = Callable[..., Notifier]


@pytest.fixture
def notifying(client: Client, settings: Settings, quick: None) -> Iterator[Notifies]:
    """Starts a notifier with rules, which has looked once: it tells of all that happens from now
    on.
    """
    with ExitStack() as running:
        names = iter("abcdef")

        def start(private: bool = True, **named: Mapping[str, Any]) -> Notifier:
            made = {name: NotificationRule(**rule) for name, rule in named.items()}
            app = make_app(settings)
            sender = NotificationSender(app, client._store, True, private)
            notifier = Notifier(
                client._store,
                made,
                next(names),
                sender.send,
                lambda run: f"https://x.example/p/runs/{run}",
            )
            notifier.start()
            running.callback(notifier.stop)
            wanted = {f"{name}:" for name in named}
            key = records.key(client._store.keys, "looked")
            until(
                lambda: (
                    wanted
                    <= {f"{each.partition(':')[0]}:" for each in client._store.redis.hkeys(key)}
                ),
                "the first look",
            )
            return notifier

        yield start
