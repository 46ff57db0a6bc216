"""A caller's mistakes in a call of Client or AsyncClient: a PerdureError that names the argument,
and nothing changes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from perdure import (
    AsyncClient,
    Client,
    InvalidInput,
    InvalidSettings,
    PerdureError,
    RunNotFound,
    Settings,
)
from tests.support.leftover_keys import keys_under

NOT_TEXTS: tuple[Any, ...] = (5, None, b"r", ["r"], True)
ONE_RUN = (
    "get",
    "wait",
    "events",
    "transcript",
    "why",
    "request_stop",
    "resume",
    "retry",
    "delete",
)

#: Method, its arguments (by place, by name), and the argument that the error names.
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    *((method, (value,), {}, "run_id") for method in ONE_RUN for value in NOT_TEXTS),
    *(("submit", ("countdown", value), {}, "goal") for value in NOT_TEXTS),
    *(("submit", (value, "x"), {}, "flow") for value in NOT_TEXTS),
    *(
        ("submit", ("countdown", "x", value), {}, "inputs")
        for value in (["rounds"], "rounds", 5, {5: 1}, [("rounds", 1)])
    ),
    *(
        ("submit", ("countdown", "x"), {"labels": value}, "labels")
        for value in (["a"], "a", 5, {"a": 5}, {5: "a"}, {"a": None})
    ),
    *(
        ("submit", ("countdown", "x"), {"not_before": start, "deadline": 3600}, "not_before")
        for start in (timedelta(hours=2), 3600)
    ),
    *(
        ("submit", ("countdown", "x"), {option: value}, option)
        for option in ("interrupt_before", "interrupt_after")
        for value in ("Executor", 5, [5], {"Executor": 1}, b"Executor")
    ),
    *(
        ("submit", ("countdown", "x"), {"run_id": value}, "run id")
        for value in (5, "", "a b", "a:memory", b"a", "caf\xe9")
    ),
    *(
        ("submit", ("countdown", "x"), {"idempotency_key": value}, "idempotency_key")
        for value in (5, "", b"k", ["k"])
    ),
    *(
        ("submit", ("countdown", "x"), {"max_rounds": value}, "max_rounds")
        for value in (0, -1, "5", 1.5, True)
    ),
    *(
        ("submit", ("countdown", "x"), {"thread_id": value}, "thread_id")
        for value in (5, b"t", ["t"])
    ),
    *(
        ("submit", ("countdown", "x"), {option: value}, option)
        for option in ("not_before", "deadline")
        for value in (
            "soon",
            True,
            float("nan"),
            float("inf"),
            10**400,
            timedelta.max,
            datetime.max.replace(tzinfo=UTC),
            [1],
            timedelta(days=10**6),
        )
    ),
    *(
        ("runs", (value,), {}, "status")
        for value in ("nonsense", 5, "RUNNING", ["running"], True, "")
    ),
    *(("runs", (), {"limit": value}, "limit") for value in (0, -1, "5", 1.5, None, True, 10**30)),
    *(("runs", (), {"flow": value}, "flow") for value in (5, ["f"])),
    *(
        ("runs", (), {"cursor": value}, "cursor")
        for value in ("", "xyz", "live|", "live|x:y", "|5.0:r", 5, "live|nan:r", "dead|5.0:r")
    ),
    ("runs", ("completed",), {"cursor": "live|5.0:r"}, "cursor"),
    *(
        ("events", ("live",), {"after": value}, "after")
        for value in ("xyz", "", "5-", 5, "1-2-3", "-1", str(2**64), "$")
    ),
    *(("events", ("live",), {"follow": value}, "follow") for value in ("no", None, 0)),
    *(
        ("wait", ("live",), {"timeout": value}, "timeout")
        for value in ("5", float("nan"), True, [1])
    ),
    *(("request_stop", ("live",), {"mode": value}, "mode") for value in ("soon", None, 5, ["now"])),
    *(
        (method, arguments, {option: value}, option)
        for method, arguments in (("request_stop", ("live",)), ("pause_flow", ("countdown",)))
        for option in ("reason", "requested_by")
        for value in (5, b"me", {"by": "me"})
    ),
    *(
        (method, (value,), {}, "flow")
        for method in ("pause_flow", "unpause_flow")
        for value in NOT_TEXTS
    ),
    *(
        (method, (), {"status": value}, "status")
        for method in ("matching", "request_stop_many")
        for value in ("nonsense", 5)
    ),
    *(("matching", (), {"older_than": value}, "older_than") for value in (5, "7d", timedelta.max)),
    *(("matching", (), {"now": value}, "now") for value in (5, "today", datetime(2026, 1, 1))),  # noqa: DTZ001  without a zone on purpose
    *(("delete_many", (value,), {}, "") for value in ("nonsense", None, 5, "running")),
    ("delete_many", ("completed",), {"older_than": "7d"}, "older_than"),
    ("delete_many", ("completed",), {"flow": 5}, "flow"),
    ("request_stop_many", (), {"mode": "soon", "flow": "countdown"}, "mode"),
    ("request_stop_many", (), {"flow": "nobody's", "mode": "soon"}, "mode"),
    ("request_stop_many", (), {"flow": "nobody's", "reason": 5}, "reason"),
    ("request_stop_many", (), {}, "flow"),
    ("retry_many", (5,), {}, "flow"),
    *(
        ("submit", ("countdown", "x"), {"budgets": value}, "budgets")
        for value in ([5], "tokens", {5: 5}, {"token": 5}, {"tokens": "5"})
    ),
    *(
        ("resume", ("live",), {"add": value}, "add")
        for value in ([5], "tokens", {5: 5}, {"token": 5}, {"tokens": 0}, {"tokens": 10**400})
    ),
    ("resume", ("live",), {"add": {"tokens": 5}}, "tokens"),
    *(("resume", ("live",), {"interrupt": value}, "interrupt") for value in (5, ["0:0"])),
    *(("inbox", (), {"limit": value}, "limit") for value in (0, "5", None)),
    *(
        ("inbox", (), {"cursor": value}, "cursor")
        for value in ("", "xyz", "5:", "5:a b", 5, "live|5.0:r")
    ),
]


@pytest.fixture
def stored(settings: Settings, client: Client) -> Iterator[redis.Redis]:
    client.submit("countdown", "x", run_id="live")
    assert settings.redis_url is not None
    with redis.Redis.from_url(settings.redis_url) as connection:
        yield connection


def everything(connection: redis.Redis, prefix: str) -> dict[bytes, bytes]:
    return {key: connection.dump(key) for key in keys_under(connection, prefix)}


def test_a_wrong_argument_is_named_in_an_error_of_ours_and_changes_nothing(
    client: Client, stored: redis.Redis, prefix: str
) -> None:
    before = everything(stored, prefix)
    faults = []
    for method, arguments, options, name in WRONG:
        error = None
        try:
            result = getattr(client, method)(*arguments, **options)
            next(result) if inspect.isgenerator(result) else None
        except Exception as raised:
            error = raised
        if not isinstance(error, InvalidInput) or name not in str(error) or len(str(error)) > 500:
            faults.append(f"{method}{arguments}{options}: {error!r}")
    assert not faults, "\n".join(faults)
    assert everything(stored, prefix) == before


def test_the_async_client_refuses_the_same(
    settings: Settings, stored: redis.Redis, prefix: str
) -> None:
    before = everything(stored, prefix)
    faults: list[str] = []

    async def story() -> None:
        client = AsyncClient(settings=settings)
        for method, arguments, options, name in WRONG:
            error = None
            try:
                result = getattr(client, method)(*arguments, **options)
                await (anext(result) if inspect.isasyncgen(result) else result)
            except Exception as raised:
                error = raised
            if not isinstance(error, InvalidInput) or name not in str(error):
                faults.append(f"{method}{arguments}{options}: {error!r}")
        await client.close()

    asyncio.run(story())
    assert not faults, "\n".join(faults)
    assert everything(stored, prefix) == before


@pytest.mark.parametrize(
    "run_id",
    [
        "",
        "no body",
        "live:memory",
        "live:events",
        "live:artifacts",
        "caf\xe9",
        "\ud800",
        "x" * 100_000,
        "a\nb",
        "*",
    ],
)
def test_an_id_that_no_run_can_have_is_not_found(
    client: Client, stored: redis.Redis, run_id: str
) -> None:
    for method in ONE_RUN:
        if method == "request_stop":
            assert client.request_stop(run_id).known is False
            continue
        with pytest.raises(RunNotFound):
            getattr(client, method)(run_id)


@pytest.mark.parametrize(
    "option", ["goal", "reason", "requested_by", "thread_id", "idempotency_key"]
)
def test_a_text_that_is_no_unicode_is_refused(
    client: Client, stored: redis.Redis, option: str
) -> None:
    for text in ("\ud800", "caf\udce9"):
        of_a_stop = option in ("reason", "requested_by")
        call = (
            partial(client.request_stop, "live")
            if of_a_stop
            else partial(client.submit, "countdown", goal="x")
        )
        with pytest.raises(PerdureError, match="surrogate"):
            call(**{option: text})
    assert [run.id for run in client.runs()] == ["live"]


@pytest.mark.parametrize(
    "url",
    [
        "http://x",
        "",
        "localhost:6379",
        5,
        b"redis://h",
        "redis://h/zero",
        "redis://h?colour=red",
        "redis://[::1",
        "unix://",
    ],
)
@pytest.mark.parametrize("made", [Client, AsyncClient])
def test_a_url_that_can_be_no_server_is_refused_before_anything_is_asked(
    url: Any, made: Any
) -> None:
    with pytest.raises(InvalidSettings, match="redis://"):
        made(url)
    if url:
        with pytest.raises(InvalidSettings, match="redis://"):
            made(settings=Settings.model_construct(redis_url=url))


@pytest.mark.parametrize("settings", [5, "redis://h", Path("config"), {"redis_url": "redis://h"}])
def test_settings_that_are_none_are_refused(settings: Any) -> None:
    with pytest.raises(InvalidSettings, match=r"perdure\.Settings"):
        Client(settings=settings)


def test_a_wait_whose_time_has_run_out_is_over_at_once(client: Client, stored: redis.Redis) -> None:
    with pytest.raises(TimeoutError):
        client.wait("live", -1)


def test_a_page_continues_where_its_cursor_says(client: Client) -> None:
    for number in range(5):
        client.submit("countdown", "x", run_id=f"r{number}:@-.x|y"[:-2])
    first = client.runs(limit=2)
    second = client.runs(limit=2, cursor=first.cursor)
    third = client.runs(limit=2, cursor=second.cursor)
    assert len({run.id for page in (first, second, third) for run in page}) == 5
