"""Pictures and files: submitted with a goal, returned by commands, seen by models, downloaded from
answers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    ArtifactNotFound,
    Client,
    Command,
    Conflict,
    ControllerExecutorFlow,
    FatalError,
    File,
    Finish,
    InvalidFlow,
    InvalidInput,
    RoundContext,
    RunStatus,
    Step,
    Steps,
    Turn,
    UnstorableValue,
    command,
    register,
    workflow,
)
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.chat import UserMessage
from perdure.flows.controllers.model.files import MOST_READ, loaded, message_with
from perdure.flows.controllers.model.messages import bytes_of, group_messages, merged
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.testing import FakeModel
from perdure.worker.settings import Settings
from tests.support.chat_server import ChatServer, Fails, Play, Says, chat_server
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving

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


@register("seeing_at_once")
class SeeingAtOnce(Seeing):
    """The same, with calls at once."""

    parallel_calls = 4


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with chat_server([Says("I see it.")]) as running:
        yield running


@pytest.fixture
def settings(settings: Settings, chat: ChatServer) -> Settings:
    soon = {"lease_seconds": 0.6, "heartbeat_seconds": 0.1, "resend_seconds": 0.2}
    return settings.model_copy(update={"model_url": chat.url, **soon})


def play_until_ended(worker: Driver, run_id: str) -> None:
    def ended() -> bool:
        worker.sweep_and_play()
        return worker.client.get(run_id).status.ended

    until(ended, "the end of the run")


def parts(play: Play, request: int) -> list[dict[str, Any]]:
    """Return the parts of all user messages of a request that have several."""
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
        play_until_ended(second, run.id)
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


def test_the_prompt_is_made_again_from_references(client: Client, settings: Settings) -> None:
    file = File("a.png", picture(100))
    with (
        FakeModel([Command("draw", {"title": "t"}), Finish("done")]) as model,
        driving(settings) as worker,
    ):
        run = client.submit("seeing", "g", files=[file])
        worker.play()
    first, second = (request.messages for request in model.requests)
    assert [each.files for each in first if each.role == "user"] == [(file,)]
    seen = [each.files for each in second if each.role == "user"]
    assert seen == [(file,), (File("1-chart.png", CHART),)]
    prompt = client.prompt(run.id, 2)
    assert prompt["exact"] is True
    goal = "g\n\n[File a.png: image/png, 100 bytes]"
    files = [{"at": len(goal), **file.reference.data}]
    assert prompt["messages"][1] == {"role": "user", "text": goal, "files": files}
    assert len(json.dumps(prompt)) < 5_000


@register("drawing")
class Drawing(ControllerExecutorFlow):
    """Attaches files in every way, by code."""

    def decide(self, context: RoundContext) -> Finish:
        first = context.attach(File("a.txt", b"1"))
        assert context.attach(File("a.txt", b"1")) == first
        second = context.attach(File("a.txt", b"2"))
        assert context.file(second).text == "2"
        assert context.file("notes.md").text == "# Notes"
        assert [each.name for each in context.files] == ["notes.md"]
        with pytest.raises(InvalidFlow, match="outside of once"):
            context.once("x", lambda: context.attach(File("b.txt", b"3")))
        with pytest.raises(InvalidInput, match=r"no file 'c'; it was submitted with: notes\.md"):
            context.file("c")
        for number in range(2):
            context.attach(File(f"{number}.bin", b"x" * 6_000_000, "text/plain"))
        with pytest.raises(InvalidInput, match="16,777,216"):
            context.attach(File("2.bin", b"x" * 6_000_000, "text/plain"))
        with pytest.raises(UnstorableValue, match=r"context\.attach"):
            context.remember("file", File("a.txt", b"1"))
        return Finish({"report": second})


def test_code_attaches_files_to_its_answer(client: Client, settings: Settings) -> None:
    run = client.submit("drawing", "g", files=[File("notes.md", b"# Notes")])
    with driving(settings) as worker:
        worker.play()
    answer = client.result(run, 1)
    assert answer["report"]["file"] == "0-2-a.txt"
    assert client.file(run.id, answer["report"]["file"]) == File("0-2-a.txt", b"2", "text/plain")
    names = ["0-0.bin", "0-1.bin", "0-2-a.txt", "0-a.txt", "0-b.txt", "notes.md"]
    assert [each.name for each in client.files(run.id)] == names


def test_calls_at_once_return_files_that_the_model_of_their_parent_sees(
    client: Client, settings: Settings
) -> None:
    calls = [Command("draw", {"title": "a"}), Command("measure", {"name": "a.png"})]
    with FakeModel([calls, Finish("done")]) as model, driving(settings) as worker:
        run = client.submit("seeing_at_once", "g", files=[File("a.png", picture(100))])
        worker.play()
    assert client.get(run.id).answer == "done"
    assert [each.content for each in model.requests[1].messages[-1].files] == [CHART]
    drawn, measured = (each["observation"] for each in client.transcript(run.id)["history"])
    name = drawn["charts"][0]["file"]
    assert (measured, name.endswith("/0-chart.png")) == (100, True)
    assert client.file(run.id, name).content == CHART


def test_files_count_as_tokens_and_those_that_are_too_much_are_left_out() -> None:
    kept = {f"{n}.png": File(f"{n}.png", PNG + bytes([n]) * 4_000_000) for n in range(6)}
    references = [replace(each.reference, name=name) for name, each in kept.items()]
    context = RoundContext("g", files=(references[0],), attached=kept)
    messages = [message_with("Look.", [each]) for each in references]
    assert 1_600 * 3 * 6 < bytes_of(messages) < 1_700 * 3 * 6
    names = [
        each.file.name
        for message in loaded(messages, context)
        if isinstance(message, UserMessage)
        for each in message.files
    ]
    assert names == ["0.png", "3.png", "4.png", "5.png"]
    hidden = ["not shown: " in each.text for each in loaded(messages, context)]
    assert hidden == [False, True, True, False, False, False]
    gone = RoundContext("g", files=(), attached={})
    assert [each.files for each in loaded(messages[:1], gone)] == [()]  # type: ignore[union-attr]
    with pytest.raises(FatalError, match=r"no file '0\.png'"):
        loaded(messages[:1], RoundContext("g", files=(references[0],)))


def test_a_text_file_counts_as_far_as_it_is_shown() -> None:
    kept = {f"{n}.txt": File(f"{n}.txt", b"x" * 8_000_000) for n in range(3)}
    kept["shot.png"] = File("shot.png", PNG)
    references = [replace(each.reference, name=name) for name, each in kept.items()]
    context = RoundContext("g", files=tuple(references[:3]), attached=kept)
    [message] = loaded([message_with("Look.", references)], context)
    assert isinstance(message, UserMessage) and len(message.files) == 4


def test_text_files_are_read_up_to_a_limit_of_their_own() -> None:
    kept = {f"{n}.txt": File(f"{n}.txt", b"x" * 8_000_000) for n in range(9)}
    references = [replace(each.reference, name=name) for name, each in kept.items()]
    [message] = loaded([message_with("Look.", references)], RoundContext("g", attached=kept))
    assert isinstance(message, UserMessage)
    assert 8_000_000 * len(message.files) <= MOST_READ < 8_000_000 * (len(message.files) + 1)


def test_a_file_that_is_left_out_moves_those_behind_it() -> None:
    kept = {f"{n}.png": File(f"{n}.png", PNG) for n in range(3)}
    references = [replace(each.reference, name=name) for name, each in kept.items()]
    del kept["1.png"]
    [whole] = loaded([message_with("a", references)], RoundContext("g", attached=kept))
    assert isinstance(whole, UserMessage)
    lines = [whole.text[: each.at].splitlines()[-1] for each in whole.files]
    assert [line[:11] for line in lines] == ["[File 0.png", "[File 2.png"]
    assert "1.png: image/png, " in whole.text and whole.text.count("not shown") == 1


def test_a_file_that_is_left_out_moves_the_end_of_the_repeated_text() -> None:
    kept = {f"{n}.png": File(f"{n}.png", PNG) for n in range(3)}
    references = [replace(each.reference, name=name) for name, each in kept.items()]
    del kept["1.png"]
    first = message_with("a", references)
    whole = replace(first, text=f"{first.text}\n\npassing", repeated=len(first.text))
    [message] = loaded([whole], RoundContext("g", attached=kept))
    assert isinstance(message, UserMessage) and message.repeated is not None
    assert message.text[message.repeated :] == "\n\npassing"


def test_merged_messages_keep_each_file_behind_its_line() -> None:
    first, second = (File(f"{n}.png", picture(100, n)).reference for n in (1, 2))
    [whole] = merged([message_with("a", [first]), UserMessage("b"), message_with("c", [second])])
    assert isinstance(whole, UserMessage)
    lines = [whole.text[: each.at].splitlines()[-1] for each in whole.files]
    assert lines == [f"[File {n}.png: image/png, 100 bytes]" for n in (1, 2)]


def draw_chart(name: str) -> File:
    return File(name, CHART)


def size_of(chart: Any, context: RoundContext) -> int:
    return len(context.file(chart).content)


@workflow("charts")
def charts(steps: Steps) -> dict[str, Any]:
    """Draws one chart, measures it, and draws two at once."""
    first = steps.step(draw_chart, "a.png", idempotent=True)
    measured = steps.step(size_of, first)
    others = steps.gather([Step(draw_chart, "a.png", name=name) for name in ("b", "c")])
    return {"measured": measured, "files": [each["file"] for each in (first, *others)]}


def test_steps_of_a_workflow_return_files(client: Client, settings: Settings) -> None:
    run = client.submit("charts", "g")
    with driving(settings) as worker:
        message = worker.take()
        assert message is not None
        worker.dies_before_its_commit(*message)
        play_until_ended(worker, run.id)
    answer = client.result(run, 1)
    assert (answer["measured"], len(answer["files"])) == (len(CHART), 3)
    for name in answer["files"]:
        assert client.file(run.id, name).content == CHART


def test_a_model_without_tools_sees_files_behind_its_observations() -> None:
    file = File("a.png", picture(100)).reference
    observed = Turn(Command("draw", {}), {"chart": file.data})
    messages = group_messages((observed,), ToolNames(["draw"]), tools=False)
    [whole] = merged(messages[1:])
    assert isinstance(whole, UserMessage)
    assert whole.text.startswith("Observation: {")
    assert [each.file for each in whole.files] == [file]
    quoted = Turn(Command("draw", {}), {"chart": {**file.data, "more": 1}})
    assert len(group_messages((quoted,), ToolNames(["draw"]), tools=False)) == 2
