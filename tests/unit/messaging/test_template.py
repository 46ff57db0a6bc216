"""A message filled into a template equals Celery's; if other code can change messages, Celery
builds each.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial, wraps
from itertools import count
from threading import Thread
from typing import Any
from uuid import UUID

import pytest
from celery import Celery, Task, signals
from celery._state import (
    _task_stack,
)  # where Celery itself notes the task under way; it has no public way in
from kombu import Producer

from perdure import Settings, install
from perdure.worker.app import engine_of, make_app
from perdure.worker.domain.record import SCHEMA
from perdure.worker.engine.sweeper import unplayable
from perdure.worker.messaging.fast.hooks import publish_functions
from perdure.worker.messaging.fast.shape import Shapes
from perdure.worker.messaging.fast.template import BLANKS, MessageTemplates, Template
from perdure.worker.messaging.message import TASKS, stored_round, validate
from perdure.worker.messaging.message_builder import Sender, _message_app, sender
from perdure.worker.messaging.publisher import Publisher
from tests.support.apps.user_app_settings import SETTINGS, Stubborn
from tests.support.cases import EachCase, cases_of

URL = "redis://localhost:6379/0"
ROUNDS = [
    ("run", 1, 2),
    ("a", 0, 0),
    ("order:4711@shop_7.eu-west", 12, 10_000),
    ("x" * 200, 2**53 - 1, 2**53 - 1),
]
#: Values that are unique to every message.
IDS = ("id", "root_id", "correlation_id", "delivery_tag")


def ours() -> Celery:
    return make_app(Settings(redis_url=URL, prefix="mine"))


def theirs(**sets: Any) -> Celery:
    app = Celery("theirs", broker=URL, task_cls=Stubborn, set_as_current=False)
    app.conf.update(sets)
    return install(app, Settings(prefix="mine"))


APPS: dict[str, Callable[[], Celery]] = {
    "ours": ours,
    "theirs": theirs,
    **{f"theirs: {name}": lambda sets=sets: theirs(**sets) for name, sets in SETTINGS.items()},  # type: ignore[misc]
}


@pytest.fixture
def dispatcher() -> Publisher:
    return engine_of(ours()).publisher


@contextmanager
def round_under_way(
    task_id: Any = 'the round"s', root_id: Any = "the first one's"
) -> Iterator[None]:
    """Make this thread look as in the middle of a round that a worker received."""
    task = ours().tasks[TASKS["controller"]]
    task.push_request(id=task_id, root_id=root_id, called_directly=False)
    _task_stack.push(task)
    try:
        yield
    finally:
        _task_stack.pop()
        task.pop_request()


PLACES: dict[str, Callable[[], Any]] = {"outside": nullcontext, "in a round": round_under_way}


def fields(text: str) -> dict[str, Any]:
    """Return a message's fields, with its body decoded."""
    read = json.loads(text)
    body = json.loads(base64.b64decode(read.pop("body")))
    return {
        "body": body,
        **{
            f"{part}.{key}": value
            for part in ("headers", "properties")
            for key, value in read.pop(part).items()
        },
        **read,
    }


def by_celery(dispatcher: Publisher, role: str, args: tuple[str, int, int]) -> str:
    return dispatcher._built(TASKS[role], f"mine.{role}", *args)


def templates_of(dispatcher: Publisher) -> dict[Any, Any]:
    """Return the templates that it has learned."""
    assert isinstance(dispatcher._builder, MessageTemplates)
    return dispatcher._builder._templates


def template_of(dispatcher: Publisher, role: str) -> Template | None:
    """Return the template of this role's messages, from here."""
    assert isinstance(dispatcher._builder, MessageTemplates)
    task, queue = TASKS[role], f"mine.{role}"
    build = partial(dispatcher._built, task, queue)
    return dispatcher._builder._template(dispatcher._app, build, task, queue, sender())


def is_by_template(dispatcher: Publisher, role: str = "controller") -> bool:
    """Return whether a template would make a message for this role now, with the publisher's
    present knowledge.
    """
    dispatcher.message(role, "run", 1, 2)
    key = (TASKS[role], f"mine.{role}", os.getpid(), sender().parent is None, publish_functions())
    return templates_of(dispatcher).get(key) is not None


def test_a_filled_template_is_field_by_field_what_the_installed_celery_builds(
    each_case: EachCase,
) -> None:
    def check(app: str, role: str, place: str) -> None:
        dispatcher = engine_of(APPS[app]()).publisher
        with PLACES[place]():
            template = template_of(dispatcher, role)
            assert template is not None, (
                "the installed Celery builds messages otherwise than"
                " worker/messaging/fast/template.py knows: adapt BLANKS"
            )
            for args in ROUNDS:
                built = by_celery(dispatcher, role, args)
                ids = fields(built)
                task_id, tag = ids["headers.id"], ids["properties.delivery_tag"]
                assert template.fill(args, sender(), task_id, tag) == built
                ours_, celerys = fields(dispatcher.message(role, *args).text), fields(built)
                assert list(ours_) == list(celerys)
                differing = {name for name in celerys if ours_[name] != celerys[name]}
                own = {name for name in celerys if name.rpartition(".")[2] in IDS}
                assert differing == (own if place == "outside" else own - {"headers.root_id"})

    each_case(cases_of(APPS, TASKS, PLACES), check)


@pytest.mark.parametrize("role", TASKS)
def test_the_guard_takes_it_and_a_stored_one_can_be_played(
    dispatcher: Publisher, role: str
) -> None:
    assert is_by_template(dispatcher, role)
    for args in ROUNDS:
        message = dispatcher.message(role, *args)
        assert stored_round(message.text, message.queue) == args
        built, made = (
            validate(text, message.queue)
            for text in (by_celery(dispatcher, role, args), message.text)
        )
        assert built["body"] == made["body"] and built["headers"].keys() == made["headers"].keys()
        stored = {
            "phase": "queued",
            "schema": SCHEMA,
            "queue": message.queue,
            "message": message.text,
        }
        assert unplayable({**stored, "epoch": str(args[1]), "step": str(args[2])}, args[0]) is None
        assert (
            unplayable({**stored, "epoch": str(args[1]), "step": str(args[2] + 1)}, args[0])
            is not None
        )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("role", TASKS)
def test_who_made_a_message_reads_it_as_the_guard_reads_its_text(
    dispatcher: Publisher, role: str, place: str
) -> None:
    shapes = Shapes()
    with PLACES[place]():
        for args in ROUNDS:
            draft = dispatcher.draft(role, *args)
            message = draft.message
            looked_at = {
                **validate(message.text, message.queue),
                "content": fields(message.text)["body"],
            }
            assert looked_at == {
                **shapes.validate(message.text, message.queue),
                "content": looked_at["content"],
            }
            wanted = {**looked_at, "body": base64.b64decode(looked_at["body"])}
            read = draft.read()
            assert read is not None
            assert read == wanted
            for part in ("headers", "properties"):
                read[part].clear()  # as Celery may
            read["content"][2].clear()
            assert draft.read() == wanted


def test_a_message_that_celery_built_is_looked_at(dispatcher: Publisher) -> None:
    assert dispatcher.draft("controller", "run", 1, 2).read() is not None

    def hear(**_: Any) -> None:
        """Do nothing: as a receiver, it might have changed the message."""

    signals.before_task_publish.connect(hear)
    draft = dispatcher.draft("controller", "run", 1, 2)
    assert draft.read() is None and draft.message == draft.message, (
        "built once, as Celery tells whoever listens"
    )
    signals.before_task_publish.disconnect(hear)


def test_each_message_has_ids_of_its_own(dispatcher: Publisher) -> None:
    made = [fields(dispatcher.message("controller", "run", 1, 2).text) for _ in range(1000)]
    ids = [each["headers.id"] for each in made] + [each["properties.delivery_tag"] for each in made]
    assert len(set(ids)) == 2000 and {
        (UUID(each).version, str(UUID(each)) == each) for each in ids
    } == {(4, True)}
    assert all(
        each["headers.root_id"] == each["properties.correlation_id"] == each["headers.id"]
        for each in made
    )


def test_a_message_made_in_a_round_tells_that_round_and_the_first(dispatcher: Publisher) -> None:
    assert fields(dispatcher.message("controller", "run", 1, 2).text)["headers.parent_id"] is None
    with round_under_way():
        told = fields(dispatcher.message("controller", "run", 1, 3).text)
    assert (told["headers.root_id"], told["headers.parent_id"]) == (
        "the first one's",
        'the round"s',
    )


def test_a_message_tells_of_whom_its_sender_is_said_to_be(dispatcher: Publisher) -> None:
    """A worker has asked Celery for the round under way when it began to play it."""
    with round_under_way():
        assert is_by_template(dispatcher)
        told = fields(
            dispatcher.draft(
                "controller", "run", 1, 3, Sender("the first", "this", "here")
            ).message.text
        )
    assert (told["headers.root_id"], told["headers.parent_id"], told["properties.reply_to"]) == (
        "the first",
        "this",
        "here",
    )


def test_a_round_that_tells_of_no_first_one_is_the_first(dispatcher: Publisher) -> None:
    with round_under_way("this", None):
        assert is_by_template(dispatcher)
        made, built = (
            fields(dispatcher.message("controller", "run", 1, 2).text),
            fields(by_celery(dispatcher, "controller", ("run", 1, 2))),
        )
    assert made["headers.root_id"] == built["headers.root_id"] == "this"


@pytest.mark.parametrize(
    "odd", [datetime(2030, 1, 1, tzinfo=UTC), 7, ["a", {"b": None}], "", 'q"\\ % <id>'], ids=repr
)
def test_what_a_strangers_message_said_of_itself_is_passed_on_as_celery_does(
    dispatcher: Publisher, odd: Any
) -> None:
    with round_under_way(task_id=odd, root_id=odd):
        assert is_by_template(dispatcher)
        draft, built = (
            dispatcher.draft("controller", "run", 1, 2),
            fields(by_celery(dispatcher, "controller", ("run", 1, 2))),
        )
    made = fields(draft.message.text)
    assert draft.read() is None or isinstance(odd, str)  # no guard lets non-text through
    assert made["headers.parent_id"] == built["headers.parent_id"]
    assert made["headers.root_id"] == (built["headers.root_id"] if odd else made["headers.id"])


def test_a_message_names_the_thread_that_made_it(dispatcher: Publisher) -> None:
    told: list[tuple[str, str]] = []

    def make() -> None:
        texts = (
            dispatcher.message("controller", "run", 1, 2).text,
            by_celery(dispatcher, "controller", ("run", 1, 2)),
        )
        told.append(
            (fields(texts[0])["properties.reply_to"], fields(texts[1])["properties.reply_to"])
        )

    make()
    thread = Thread(target=make)
    thread.start()
    thread.join()
    assert told[0][0] == told[0][1] != told[1][0] == told[1][1]
    assert len(templates_of(dispatcher)) == 1


def test_a_forked_process_names_itself(
    dispatcher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fields(dispatcher.message("controller", "run", 1, 2).text)["headers.origin"].startswith(
        f"gen{os.getpid()}@"
    )
    monkeypatch.setattr(os, "getpid", lambda: 4711)
    assert fields(dispatcher.message("controller", "run", 1, 2).text)["headers.origin"].startswith(
        "gen4711@"
    )


def test_a_run_id_that_no_run_can_have_is_written_by_celery(dispatcher: Publisher) -> None:
    assert is_by_template(dispatcher)
    odd = 'a "run"\\ %s 😀'
    assert fields(dispatcher.message("controller", odd, 1, 2).text)["body"][0] == [odd, 1, 2]


@pytest.mark.parametrize("name", ["before_task_publish", "after_task_publish", "task_sent"])
def test_who_listens_to_publishing_is_told_of_each_message_and_of_no_sample(
    dispatcher: Publisher, name: str
) -> None:
    signal, heard = getattr(signals, name), []

    def hear(sender: str, **said: Any) -> None:
        heard.append((sender, tuple(said["body"][0]) if "body" in said else said["args"]))

    for connected in (True, False, True):  # before a template is learned, after it, and once more
        if connected:
            signal.connect(hear)
        dispatcher.message("executor", "run", 1, 2)
        signal.disconnect(hear)
        assert heard == ([("perdure.executor_round", ("run", 1, 2))] if connected else [])
        heard.clear()
    assert is_by_template(dispatcher, "executor")


def test_what_a_listener_writes_into_a_message_is_there(dispatcher: Publisher) -> None:
    assert is_by_template(dispatcher)

    def trace(headers: dict[str, Any], **_: Any) -> None:
        headers["traceparent"] = "00-1-2-03"

    signals.before_task_publish.connect(trace)
    assert (
        fields(dispatcher.message("controller", "run", 1, 2).text)["headers.traceparent"]
        == "00-1-2-03"
    )
    signals.before_task_publish.disconnect(trace)
    assert "headers.traceparent" not in fields(dispatcher.message("controller", "run", 1, 2).text)


def test_who_listens_to_another_task_or_listens_no_more_costs_rounds_nothing(
    dispatcher: Publisher,
) -> None:
    def hear(**_: Any) -> None:
        pytest.fail("told of a round")

    signals.before_task_publish.connect(hear, sender="shop.tidy")
    signals.after_task_publish.connect(
        lambda **_: pytest.fail("called after it was gone")
    )  # a weak reference, to nothing by now
    assert is_by_template(dispatcher)
    signals.before_task_publish.disconnect(hear, sender="shop.tidy")


@pytest.mark.parametrize(
    ("owner", "name"), [(Celery, "send_task"), (Producer, "publish"), (Producer, "_publish")]
)
@pytest.mark.parametrize("is_early", [True, False])
def test_a_tracer_that_replaces_a_function_of_the_way_sees_each_message(
    dispatcher: Publisher, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, is_early: bool
) -> None:
    original, seen = getattr(owner, name), []

    @wraps(original)
    def traced(*args: Any, **options: Any) -> Any:
        seen.append(args)
        return original(*args, **options)

    if not is_early:
        assert is_by_template(dispatcher)
    monkeypatch.setattr(owner, name, traced)
    for number in range(1, 4):
        dispatcher.message("controller", "run", 1, 2)
        assert len(seen) == number
    assert not is_by_template(dispatcher)
    monkeypatch.undo()
    assert is_by_template(dispatcher)


def test_a_task_of_somebodys_own_under_the_name_of_ours_sends_each_message_itself() -> None:
    app, sent = theirs(), []
    ordinary = app.tasks[TASKS["controller"]]

    class Loud(Task):  # type: ignore[misc]
        def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
            sent.append(args)
            return ordinary.apply_async(args, kwargs, **options)

    app.tasks[TASKS["controller"]] = Loud()
    assert not is_by_template(engine_of(app).publisher) and sent == [("run", 1, 2)]


def test_a_task_whose_sending_somebody_replaced_sends_each_message_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, sent = theirs(), []
    task = app.tasks[TASKS["controller"]]
    original = task.apply_async

    def replaced(args: Any, **options: Any) -> Any:
        sent.append(args)
        return original(args, **options)

    monkeypatch.setattr(task, "apply_async", replaced)
    assert not is_by_template(engine_of(app).publisher) and sent == [("run", 1, 2)]


def test_a_producer_of_somebodys_own_publishes_each_message() -> None:
    app, sent = theirs(), []

    class Loud(Producer):
        def publish(self, body: Any, **options: Any) -> Any:
            sent.append(body[0])
            return super().publish(body, **options)

    app.amqp.Producer = Loud
    assert not is_by_template(engine_of(app).publisher) and sent == [("run", 1, 2)]


#: Changes that another version of Celery may make to a message: the header, and a value each time
#: it builds one.
OTHER_VERSIONS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "a header that counts": ("sent", lambda number: number),
    "arguments as text otherwise": ("argsrepr", lambda number: "..."),
    "a root of its own": ("root_id", lambda number: f"root {number}"),
}


@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_where_celery_builds_otherwise_it_builds_each_message(
    dispatcher: Publisher, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    amqp, numbers, (header, value) = _message_app().amqp, count(), OTHER_VERSIONS[version]
    original = amqp.create_task_message

    def other(*args: Any, **options: Any) -> Any:
        message = original(*args, **options)
        message.headers[header] = value(next(numbers))
        return message

    monkeypatch.setattr(amqp, "create_task_message", other)
    assert not is_by_template(dispatcher)
    told = fields(dispatcher.message("controller", "run", 1, 2).text)
    assert told[f"headers.{header}"] == value(next(numbers) - 1) and told["body"][0] == [
        "run",
        1,
        2,
    ]


def test_where_celery_builds_otherwise_in_a_round_alone_it_builds_the_messages_of_rounds(
    dispatcher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    amqp, numbers = _message_app().amqp, count()
    original = amqp.create_task_message

    def other(*args: Any, **options: Any) -> Any:
        message = original(*args, **options)
        if sender().parent is not None:
            message.headers["round"] = next(numbers)
        return message

    monkeypatch.setattr(amqp, "create_task_message", other)
    assert is_by_template(dispatcher)
    with round_under_way():
        assert not is_by_template(dispatcher)
        assert "headers.round" in fields(dispatcher.message("controller", "run", 1, 2).text)


@pytest.mark.parametrize("blank", BLANKS, ids=".".join)
def test_where_a_blank_is_not_in_celerys_message_there_is_no_template(
    dispatcher: Publisher, monkeypatch: pytest.MonkeyPatch, blank: tuple[str, str]
) -> None:
    from perdure.worker.messaging import message_builder

    def without(message: dict[str, Any]) -> str:
        del message[blank[0]][blank[1]]
        return json.dumps(message)

    monkeypatch.setattr(message_builder, "dumps", without)
    assert not is_by_template(dispatcher)
    assert blank[1] not in json.loads(dispatcher.message("controller", "run", 1, 2).text)[blank[0]]


def test_a_header_that_is_the_same_in_all_is_in_the_template_too(
    dispatcher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    amqp = _message_app().amqp
    original = amqp.create_task_message

    def other(*args: Any, **options: Any) -> Any:
        message = original(*args, **options)
        message.headers["share"] = "100 %s <id>"
        return message

    monkeypatch.setattr(amqp, "create_task_message", other)
    assert is_by_template(dispatcher)
    assert (
        fields(dispatcher.message("controller", "run", 1, 2).text)["headers.share"] == "100 %s <id>"
    )
