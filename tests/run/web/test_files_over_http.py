"""Files over HTTP: submitted and read by RemoteClient and the command line, served to browsers,
sent by OpenAI's client.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, File, FileReference, InvalidInput, RemoteClient
from perdure.worker.errors import UnsupportedPart
from perdure.worker.web.openai_api.files import files_in
from perdure.worker.web.openai_api.requests import goal_of
from tests.support.command_line import CommandLine
from tests.support.in_process_server import Site, site_on
from tests.support.redis_servers import CrashableServer

PICTURE = File("a b.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 12_000)
PAGE = File("page.html", b"<script>alert(1)</script>")
DRAWING = File("x.svg", b"<svg onload='alert(1)'/>")
DATA = "data:image/png;base64," + base64.b64encode(PICTURE.content).decode()


@pytest.fixture(scope="module")
def own_site(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as made:
        yield made


@pytest.fixture
def site(own_site: Site) -> Iterator[Site]:
    yield own_site
    own_site.clear()


def test_files_go_through_the_api_unchanged(url: str, client: Client, tmp_path: Path) -> None:
    remote = RemoteClient(url)
    files = [PICTURE, PAGE]
    run = remote.submit("countdown", "g", files=files, idempotency_key="k")
    assert remote.submit("countdown", "g", files=files, idempotency_key="k").id == run.id
    assert client.submit("countdown", "g", files=files).details["files"] == run.details["files"]
    assert len(PICTURE.content) > 3_000_000
    assert [remote.file(run.id, each.name) for each in files] == files
    assert [client.file(run.id, each.name) for each in files] == files
    sizes = [FileReference(each.name, each.media_type, len(each.content)) for each in files]
    assert remote.files(run.id) == client.files(run.id) == sizes
    with pytest.raises(InvalidInput, match="cannot be read"):
        remote.submit("countdown", "g", files=[tmp_path / "missing"])
    remote.close()


def test_a_body_names_no_paths_and_has_limits(site: Site) -> None:
    ask = site.asking()
    refused: dict[str, Any] = {
        "data": {"name": "a.png", "path": "/etc/passwd"},
        "base64": {"name": "a.txt", "data": "%%%"},
        "is empty": {"name": "a.txt", "data": ""},
        "without": {"name": "../a.txt", "data": "eA=="},
        "is no image/png": {"name": "a.png", "data": "eA=="},
    }
    for text, file in refused.items():
        answer = ask.post("/api/v1/runs", json={"flow": "countdown", "goal": "g", "files": [file]})
        assert (answer.status_code, text in answer.text) == (422, True), answer.text
    large = {"flow": "countdown", "goal": "g" * 2_500_000}
    assert (
        ask.post("/api/v1/runs/nothing/resume", json={"answer": "x" * 3_000_000}).status_code == 413
    )
    assert ask.post("/api/v1/runs", json=large).status_code == 422
    assert site.client.runs().runs == []


def test_browsers_show_pictures_and_save_all_else(site: Site) -> None:
    run = site.client.submit("countdown", "g", files=[PICTURE, PAGE, DRAWING])
    ask = site.asking()
    for file, shown in ((PICTURE, "inline"), (PAGE, "attachment"), (DRAWING, "attachment")):
        answer = ask.get(f"/api/v1/runs/{run.id}/files/{file.name}")
        assert (answer.content, answer.headers["content-type"]) == (file.content, file.media_type)
        assert answer.headers["content-disposition"].startswith(f"{shown}; filename*=UTF-8''")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert (
        "a%20b.png"
        in ask.get(f"/api/v1/runs/{run.id}/files/a b.png").headers["content-disposition"]
    )
    page = ask.get(f"/runs/{run.id}").text
    assert page.count("<img") == 1
    assert f'<img src="/api/v1/runs/{run.id}/files/a%20b.png"' in page
    assert f'href="/api/v1/runs/{run.id}/files/x.svg" download' in page
    assert (
        ask.get(f"/api/v1/runs/{run.id}/files/nothing").json()["type"]
        == "urn:perdure:artifact-not-found"
    )


def test_openai_messages_bring_pictures_and_documents() -> None:
    chat = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": DATA}},
                {
                    "type": "file",
                    "file": {
                        "filename": "p.pdf",
                        "file_data": "data:application/pdf;base64,JVBERi0x",
                    },
                },
            ],
        }
    ]
    response = [{"role": "user", "content": [{"type": "input_image", "image_url": DATA}]}]
    assert goal_of(chat) == "What is it?"
    assert files_in(chat) == [File("picture-1", PICTURE.content), File("p.pdf", b"%PDF-1")]
    assert files_in(response) == [File("picture-1", PICTURE.content)]
    for part in (
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_image", "image_url": None},
    ):
        with pytest.raises(InvalidInput, match="has no data"):
            files_in([{"role": "user", "content": [part]}])
    with pytest.raises(InvalidInput, match="files of its users"):
        goal_of([{"role": "assistant", "content": [{"type": "image_url"}]}])


def test_a_message_to_a_thread_has_files(url: str, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(PAGE.content)
    remote = RemoteClient(url)
    for each in (client, remote):
        sent = each.send("ada", "what is it?", flow="countdown", files=[PICTURE, path], key="1")
        assert each.send("ada", "what is it?", files=[PICTURE, path], key="1").run_id == sent.run_id
        assert [each.file(sent.run_id, file.name).content for file in (PICTURE, PAGE)] == [
            PICTURE.content,
            PAGE.content,
        ]
        with pytest.raises(UnsupportedPart, match=r"hears texts only, but .* 'page\.html'"):
            each.send("ada", "and this?", files=[path])
    shown = CommandLine(
        tmp_path, client.settings, PERDURE_FLOW_MODULES="tests.support.example_flows.rings"
    )("send", "cli", "what is it?", "--flow", "countdown", "--file", str(path))
    assert client.file(shown.out.split()[0], PAGE.name).content == PAGE.content
    remote.close()
