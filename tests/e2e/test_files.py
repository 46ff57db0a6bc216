"""Pictures and files: submitted with a goal, returned by commands, seen by models, downloaded from answers."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    ArtifactNotFound,
    Client,
    Conflict,
    ControllerExecutorFlow,
    File,
    InvalidInput,
    RoundContext,
    RunStatus,
    command,
    register,
)
from perdure.flows.controllers.model import ModelController
from perdure.worker.settings import Settings
from tests.support.chat_server import ChatServer, Fails, Play, Says, chat_server
from tests.support.driving import driving
from tests.support.servers import until

PNG = b"\x89PNG\r\n\x1a\n"


def picture(size: int, seed: int = 1) -> bytes:
    return PNG + random.Random(seed).randbytes(size - len(PNG))


CHART = picture(20_000, 2)


@register("seeing")
class Seeing(ControllerExecutorFlow):
    """Looks at pictures, and draws one."""

    controller = ModelController(timeout_seconds=10)

    @command(idempotent=True)
    def draw(self, context: RoundContext, title: str) -> dict[str, Any]:
        """Draw a chart."""
        return {"title": title, "charts": [File("chart.png", CHART)]}

    @command(idempotent=True)
    def measure(self, context: RoundContext, name: str) -> int:
        """Return the size of a file of the run."""
        return len(context.file(name).content)


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with chat_server([Says("I see it.")]) as running:
        yield running


@pytest.fixture
def settings(settings: Settings, chat: ChatServer) -> Settings:
    soon = {"lease_seconds": 0.6, "heartbeat_seconds": 0.1, "resend_seconds": 0.2}
    return settings.model_copy(update={"model_url": chat.url, **soon})


def parts(play: Play, request: int) -> list[dict[str, Any]]:
    """The parts of all user messages of a request that have several."""
    messages = play.asked[request].body["messages"]
    several = [each["content"] for each in messages if isinstance(each.get("content"), list)]
    return [part for content in several for part in content]


def pictures(play: Play, request: int) -> list[bytes]:
    urls = [
        each["image_url"]["url"] for each in parts(play, request) if each["type"] == "image_url"
    ]
    return [base64.b64decode(url.removeprefix("data:image/png;base64,")) for url in urls]


def test_a_model_sees_a_submitted_picture_after_a_death_too_and_the_state_stays_small(
    client: Client, settings: Settings, chat: ChatServer
) -> None:
    content = picture(1_000_000)
    run = client.submit("seeing", "What is it?", files=[File("a.png", content)])
    store = client._store
    with driving(settings) as first, driving(settings) as second:
        message = first.take()
        assert message is not None
        first.dies_before_its_commit(*message)
        until(lambda: second.sweep_and_play() and client.get(run.id).answer, "the answer")
    done = client.get(run.id)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, "I see it.")
    assert [pictures(chat.play, each) for each in (0, 1)] == [[content], [content]]
    assert [each["text"] for each in parts(chat.play, 1) if each["type"] == "text"] == [
        "What is it?\n\n[File a.png: image/png, 1,000,000 bytes]"
    ]
    digest = hashlib.sha256(content).hexdigest()[:16]
    assert done.details["files"] == [
        {"file": "a.png", "media_type": "image/png", "bytes": 1_000_000, "digest": digest}
    ]
    stored = store.redis.hgetall(store.keys.run(run.id))
    assert sum(len(name) + len(text) for name, text in stored.items()) < 5_000
    assert client.file(run.id, "a.png") == File("a.png", content, "image/png")


def test_a_commands_picture_is_seen_by_the_model_in_the_next_round_on_another_worker(
    client: Client, settings: Settings, chat: ChatServer
) -> None:
    chat.play.script = [
        Says("", [("draw", {"title": "Sales"})]),
        Says("", [("measure", {"name": "1-chart.png"})]),
        Says("", [("finish", {"answer": "It is the chart 1-chart.png."})]),
    ]
    run = client.submit("seeing", "Draw the sales")
    with driving(settings) as first, driving(settings) as second:
        for worker in (first, first, second, second, first):
            message = worker.take()
            assert message is not None
            worker.engine.rounds.run(*message)
    done = client.get(run.id)
    assert done.answer == "It is the chart 1-chart.png."
    reference = File("chart.png", CHART).reference.data | {"file": "1-chart.png"}
    history = client.transcript(run.id)["history"]
    assert history[0]["observation"] == {"title": "Sales", "charts": [reference]}
    assert history[1]["observation"] == len(CHART)
    assert [pictures(chat.play, each) for each in (0, 1, 2)] == [[], [CHART], [CHART]]
    assert [each["role"] for each in chat.play.asked[1].body["messages"]][-2:] == ["tool", "user"]
    assert client.file(run.id, "1-chart.png").content == CHART
    assert [each.name for each in client.files(run.id)] == ["1-chart.png"]
    assert client.artifacts(run.id) == {"files/1-chart.png": len(CHART)}
    with pytest.raises(ArtifactNotFound, match=r"it has 1-chart\.png"):
        client.file(run.id, "chart.png")


def test_texts_are_shown_as_texts_documents_as_documents_and_others_by_name(
    client: Client, settings: Settings, chat: ChatServer, tmp_path: Path
) -> None:
    (tmp_path / "notes.md").write_text("# Für dich")
    files = [
        tmp_path / "notes.md",
        File("paper.pdf", b"%PDF-1.7 ..."),
        File("data.zip", b"PK..."),
    ]
    client.submit("seeing", "Read them", files=files)
    with driving(settings) as worker:
        worker.play()
    told = parts(chat.play, 0)
    texts = [each["text"] for each in told if each["type"] == "text"]
    assert texts[0] == "Read them\n\n[File notes.md: text/markdown, 11 bytes]"
    assert texts[1] == "<file>\n# Für dich\n</file>"
    assert texts[-1] == "[File data.zip: application/zip, 5 bytes, not shown]"
    [document] = [each["file"] for each in told if each["type"] == "file"]
    assert document["file_data"] == "data:application/pdf;base64,JVBERi0xLjcgLi4u"


def test_a_model_that_takes_no_pictures_ends_the_run_with_an_error_that_names_the_file(
    client: Client, settings: Settings, chat: ChatServer
) -> None:
    chat.play.faults[0] = [Fails(400, {"error": {"message": "image_url is not supported"}})]
    run = client.submit("seeing", "What is it?", files=[File("a.png", picture(100))])
    with driving(settings) as worker:
        worker.play()
    failed = client.get(run.id)
    assert failed.status is RunStatus.ERRORED
    assert failed.error is not None
    assert "image_url is not supported. The request showed a.png (image/png)" in failed.error
    assert len(chat.play.asked) == 1


def test_what_is_no_file_is_refused_before_anything_is_stored(
    client: Client, tmp_path: Path
) -> None:
    refused: dict[str, Any] = {
        "cannot be read: No such file": [tmp_path / "missing.png"],
        "expected a list": "a.png",
        "expected perdure.File or a path, got bytes": [b"x"],
        "two are named 'a.txt'": [File("a.txt", b"x"), File("a.txt", b"y")],
        "16,777,216 bytes": [File(f"{each}.txt", b"x" * 6_000_000) for each in range(3)],
        "the limit is 20": [File(f"{each}.txt", b"x") for each in range(21)],
    }
    for text, files in refused.items():
        with pytest.raises(InvalidInput, match=text):
            client.submit("seeing", "g", files=files)
    assert client.runs().runs == []


def test_a_key_means_the_same_files(client: Client) -> None:
    file = File("a.png", picture(100))
    first = client.submit("seeing", "g", files=[file], idempotency_key="k")
    again = client.submit("seeing", "g", files=[file], idempotency_key="k")
    assert again.id == first.id
    for others in ([File("a.png", picture(100, 2))], [File("b.png", file.content)], None):
        with pytest.raises(Conflict):
            client.submit("seeing", "g", files=others, idempotency_key="k")
    client.request_stop(first.id, "now")
    client.delete(first.id)
    assert not client._store.redis.exists(client._store.keys.artifacts(first.id))
