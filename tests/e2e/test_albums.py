"""The conversations of the guides: five messages and a picture, over three deaths of the worker,
with agents of three libraries.

They need worker processes, since these are killed while a model answers.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from pathlib import Path

import pytest

from perdure import Client, Settings
from tests.support.album_models import LOG
from tests.support.redis_servers import until
from tests.support.workers import ROOT, WorkerProcess

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
#: In the example of each guide, the stand-in for "your model".
MODELS = {
    "pydantic-ai": ('Agent("test", ', "Agent(album_models.pydantic_model(), "),
    "openai-agents": (
        'Agent(name="album")',
        'Agent(name="album", model=album_models.openai_model())',
    ),
    "langgraph": (
        'model = FakeListChatModel(responses=["hello"])',
        "model = album_models.langgraph_model()",
    ),
}


def examples(guide: str) -> tuple[str, str]:
    """Return the module of an album in a guide, and the code that converses with it."""
    text = (ROOT / f"docs/guides/{guide}.md").read_text("utf-8")
    module, talk = re.findall(
        r"```python\n# album\.py\n(.*?)```\n\n```python\n(.*?)```", text, re.S
    )[0]
    return module, talk


@pytest.mark.slow
@pytest.mark.parametrize("guide", MODELS)
def test_a_conversation_with_a_picture_survives_three_deaths(
    client: Client,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    guide: str,
) -> None:
    module, talk = examples(guide)
    assert MODELS[guide][0] in module
    module = "from tests.support import album_models\n" + module.replace(*MODELS[guide])
    (tmp_path / "album.py").write_text(module, "utf-8")
    (tmp_path / "hat.png").write_bytes(PICTURE)
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "shown.log"
    log.touch()
    hold = log.with_suffix(".hold")

    def worker() -> WorkerProcess:
        return WorkerProcess(
            settings.model_copy(update={"flow_modules": ("album",)}),
            root=tmp_path,
            PERDURE_FLOW_MODULES="album",
            PERDURE_LEASE_SECONDS="3",
            PYTHONPATH=f"{tmp_path}:{ROOT}",
            **{LOG: str(log)},
        ).ready()

    def shown() -> list[list[list[object]]]:
        return [json.loads(line) for line in log.read_text().splitlines()]

    running = [worker()]
    answers: list[object] = []

    class Talking:
        """The client of the guide. In the second to the fourth message, the worker is killed."""

        def send(self, thread: str, text: str, **options: object) -> object:
            before = len(shown())
            if 1 <= len(answers) <= 3:
                hold.touch()
            sent = client.send(thread, text, **options)  # type: ignore[arg-type]
            if hold.exists():
                until(lambda: len(shown()) > before, "the request", 60)
                running.pop().close()
                hold.unlink()
                running.append(worker())
            return sent

        def wait(self, run_id: str) -> object:
            done = client.wait(run_id, timeout=120)
            answers.append(
                done.answer if guide != "langgraph" else done.answer["messages"][-1]["content"]
            )
            return done

    try:
        namespace: dict[str, object] = {}
        talk = talk.replace("from perdure import Client\n", "").replace("Client()", "talking")
        exec(talk, {"talking": Talking(), "print": lambda *told: None}, namespace)
    finally:
        for each in running:
            each.close()
    texts = [
        "hello, I am Ann",
        "this is my hat",
        "and I have a cat",
        "what colour is my hat?",
        "and who am I?",
    ]
    assert answers == [f"answer to {number} messages" for number in (1, 3, 5, 7, 9)]
    requests = shown()
    assert len(requests) == 5 + 3, "each death repeats the request in hand"
    last = requests[-1]
    assert [role for role, _ in last] == ["user", "assistant"] * 4 + ["user"]
    assert [str(parts[0]).splitlines()[0] for _, parts in last[::2]] == texts  # type: ignore[index]
    assert [parts for _, parts in last[1::2]] == [[each] for each in answers[:-1]]
    picture = base64.b64encode(PICTURE).decode()
    assert [picture in parts for _, parts in last] == [False, False, True] + [False] * 6  # type: ignore[operator]
    for before, after in itertools.pairwise(requests):
        assert before in (after[: len(before)], after), "nothing is lost, changed or doubled"
    assert [(each.role[0], each.text) for each in client.conversation("ann")] == [
        each
        for text, answer in zip(texts, answers, strict=True)
        for each in (("u", text), ("a", answer))
    ]
