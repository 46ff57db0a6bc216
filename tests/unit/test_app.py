"""install changes nothing of an app, reads nothing, and its messages have one form under any
settings of the app.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from celery import Celery, Task, current_app, shared_task, signals
from kombu import Exchange, Queue
from kombu.utils import json as kombu_json

from perdure import InvalidSettings, Settings, install
from perdure.worker.app import engine_of
from perdure.worker.broker_urls import redis_url
from perdure.worker.messaging.broker import with_state_server
from perdure.worker.messaging.message import validate
from tests.support.apps.user_app_settings import SETTINGS, Stubborn

URL = "redis://localhost:6379/0"


@pytest.fixture
def settings() -> Settings:
    return Settings(prefix="mine")


def _app(**sets: Any) -> Celery:
    app = Celery("theirs", broker=URL, task_cls=Stubborn, set_as_current=False)
    app.conf.update(sets)
    return app


def _queue() -> Queue:
    return Queue(
        "mail",
        Exchange("mails", type="topic"),
        routing_key="mail.#",
        queue_arguments={"x-max-priority": 5},
    )


FULL: dict[str, Any] = {
    "task_queues": [_queue()],
    "task_routes": {"shop.*": {"queue": "mail"}},
    "broker_transport_options": {"visibility_timeout": 7, "queue_order_strategy": "sorted"},
    "result_backend": "redis://localhost:6379/1",
    "task_serializer": "pickle",
    "accept_content": ["json", "pickle"],
    "beat_schedule": {"nightly": {"task": "shop.tidy", "schedule": 60.0}},
    "worker_concurrency": 3,
    "worker_pool": "solo",
}


OURS = ("celeryd_init", "worker_process_init", "worker_process_shutdown")


def _receivers() -> dict[str, list[Any]]:
    """Return the receivers of Celery's signals; Perdure's own are at the start of workers, and at
    the start and the end of their processes.
    """
    return {
        name: [key for key, _ in getattr(signals, name).receivers or ()]
        for name in signals.__all__
        if name not in OURS
    }


def tidy() -> None: ...


def test_install_changes_nothing_that_the_app_sets_or_has(settings: Settings) -> None:
    app, bare = _app(**FULL), _app(**FULL)
    for one in (app, bare):
        one.task(tidy, name="shop.tidy", shared=False)
    before, receivers, current = (
        dict(deepcopy(dict(bare.conf))),
        _receivers(),
        current_app._get_current_object(),
    )
    install(app, settings)
    app.finalize()
    bare.finalize()
    assert repr(dict(app.conf)) == repr(before) == repr(dict(bare.conf))
    assert set(app.tasks) - set(bare.tasks) == {
        "perdure.controller_round",
        "perdure.executor_round",
        "perdure.submit",
    }
    assert type(app.tasks["shop.tidy"]).__mro__[1] is not Task and isinstance(
        app.tasks["shop.tidy"], Stubborn
    )
    assert dict(app.amqp.queues) == dict(bare.amqp.queues) and set(
        app.amqp.queues.consume_from
    ) == {"mail"}
    assert _receivers() == receivers and current_app._get_current_object() is current
    assert {name: len(steps) for name, steps in app.steps.items() if steps} == {"worker": 1}


def test_install_reads_neither_configuration_nor_pending_tasks_nor_a_server(
    settings: Settings,
) -> None:
    app = Celery("theirs", set_as_current=False, autofinalize=False)
    read: list[str] = []

    class Configuration:
        def __getattr__(self, name: str) -> Any:
            read.append(name)
            raise AttributeError(name)

    app.config_from_object(Configuration())
    app.autodiscover_tasks(lambda: read.append("packages") or [])
    install(app, settings)
    assert not read and not app.configured and not app.finalized


def test_a_configuration_that_comes_after_install_is_in_force(settings: Settings) -> None:
    app = Celery("theirs", set_as_current=False)
    install(app, settings)
    app.config_from_object(
        {"CELERY_BROKER_URL": "redis://else:1/2", "CELERY_TASK_DEFAULT_QUEUE": "late"},
        namespace="CELERY",
    )
    assert (
        app.conf.task_default_queue == "late"
        and engine_of(app).settings.redis_url == "redis://else:1/2"
    )


def test_shared_tasks_reach_the_app_and_rounds_no_other(settings: Settings) -> None:
    @shared_task(name="shop.shared_by_all")
    def shared_by_all() -> None: ...

    app, other = install(_app(), settings), _app()
    assert "shop.shared_by_all" in app.tasks and "shop.shared_by_all" in other.tasks
    assert not [name for name in other.tasks if name.startswith("perdure.")]


def test_a_second_install_is_nothing_and_with_other_settings_an_error(settings: Settings) -> None:
    app = install(_app(), settings)
    engine = engine_of(app)
    assert (
        install(app, Settings(prefix="mine")) is app
        and engine_of(app) is engine
        and len(app.steps["worker"]) == 1
    )
    with pytest.raises(InvalidSettings, match=r"other settings \(prefix\)"):
        install(app, Settings(prefix="other"))
    assert engine_of(app) is engine


@pytest.fixture
def heard() -> Iterator[list[str]]:
    told: list[str] = []

    def hear(sender: str | None = None, **_: Any) -> None:
        told.append(str(sender))

    signals.before_task_publish.connect(hear)
    yield told
    signals.before_task_publish.disconnect(hear)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_rounds_message_has_one_form_whatever_the_app_sets(
    settings: Settings, heard: list[str], name: str
) -> None:
    plain = _form(install(_app(), settings))
    app = install(_app(**SETTINGS[name]), settings)
    assert _form(app) == plain
    assert heard == ["perdure.executor_round"] * 2  # signals of publishing are Celery's, and fire


def _form(app: Celery) -> Any:
    """Return the executor's message without its ids, as the guard lets it pass."""
    message = engine_of(app).publisher.message("executor", "run", 1, 2)
    assert message.queue == "mine.executor"
    read = validate(message.text, message.queue)
    assert kombu_json.loads(base64.b64decode(read["body"]))[:2] == [["run", 1, 2], {}]
    for part, ids in (
        ("headers", ("id", "root_id")),
        ("properties", ("delivery_tag", "correlation_id", "reply_to")),
    ):
        for key in ids:
            read[part].pop(key)
    return read


@pytest.mark.parametrize("name", SETTINGS)
def test_the_tasks_of_rounds_are_celerys_plain_ones_whatever_the_app_sets(
    settings: Settings, name: str
) -> None:
    def made(app: Celery) -> dict[str, Any]:
        task = install(app, settings).tasks["perdure.controller_round"]
        assert not isinstance(task, Stubborn)
        return {
            name: getattr(task, name)
            for name in (*(each for each, _ in Task.from_config), "time_limit", "max_retries")
        }

    assert made(_app(**SETTINGS[name])) == made(_app())
    assert (
        made(_app())["rate_limit"] is None
        and made(_app())["acks_late"]
        and made(_app())["ignore_result"]
    )


@pytest.mark.parametrize(
    ("broker", "url"),
    [
        ("redis://user:p%40ss@host:6380/3", "redis://user:p%40ss@host:6380/3"),
        ("redis://", "redis://"),
        ("rediss://host/1?ssl_cert_reqs=CERT_NONE", "rediss://host/1?ssl_cert_reqs=none"),
        ("redis+socket:///run/redis.sock?virtual_host=4", "unix:///run/redis.sock?db=4"),
        ("redis+socket://:secret@/run/redis.sock", "unix://:secret@/run/redis.sock"),
        ("perdure+socket:///run/redis.sock?virtual_host=0", "unix:///run/redis.sock?db=0"),
    ],
)
def test_a_redis_broker_is_where_the_state_lives(broker: str, url: str) -> None:
    assert redis_url(broker) == url
    assert (
        with_state_server(
            Settings(), Celery("theirs", broker=broker, set_as_current=False)
        ).redis_url
        == url
    )
    elsewhere = with_state_server(
        Settings(redis_url="redis://named/9"), Celery("theirs", broker=broker, set_as_current=False)
    )
    assert (elsewhere.redis_url, elsewhere.broker_url) == ("redis://named/9", broker)
    same = with_state_server(
        Settings(redis_url=url), Celery("theirs", broker=broker, set_as_current=False)
    )
    assert (same.redis_url, same.broker_url) == (url, None)


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        ({"broker_url": "amqp://user:secret@rabbit//"}, "is no Redis"),
        ({"broker_url": "memory://"}, "is no Redis"),
        ({"broker_url": "sentinel://a:1;sentinel://b:1"}, "no single broker"),
        ({"broker_url": ["redis://a", "redis://b"]}, "no single broker"),
        ({"broker_url": URL, "broker_use_ssl": {"ssl_cert_reqs": "none"}}, "broker_use_ssl"),
    ],
)
def test_where_the_broker_cannot_hold_the_state_the_error_names_the_setting(
    sets: dict[str, Any], why: str
) -> None:
    app = Celery("theirs", set_as_current=False)
    app.conf.update(sets)
    install(app, Settings())
    with pytest.raises(InvalidSettings, match=why) as raised:
        _ = engine_of(app).settings
    assert "redis_url" in str(raised.value) and "secret" not in str(raised.value)
