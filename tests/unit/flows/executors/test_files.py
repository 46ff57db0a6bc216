"""read_file, write_file, list_files and search_files: a controller's access to the files of a
workspace.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perdure.flows.commands.command import spec_of
from perdure.flows.core.errors import BadReply
from perdure.flows.core.json_values import storable
from perdure.flows.core.summaries import MOST, bounded
from perdure.flows.executors import files
from perdure.flows.executors.files import (
    ENTRIES,
    READ_BYTES,
    NoWorkspace,
    list_files,
    read_file,
    search_files,
    write_file,
)
from perdure.flows.executors.workspace import OutsideWorkspace
from perdure.flows.rounds.context import RoundContext


@pytest.fixture
def context(tmp_path: Path) -> RoundContext:
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("needle")
    (root / "src" / "one.py").write_text("first\n  a needle here\nlast\n")
    (root / "src" / "two.txt").write_text("needle\n")
    (root / "data").write_bytes(b"needle\0")
    (tmp_path / "outside.txt").write_text("needle")
    (root / "src" / "link.txt").symlink_to("../../outside.txt")
    os.mkfifo(root / "src" / "pipe")
    return RoundContext("g", workspace=str(root))


def test_a_text_is_read_whole_or_in_parts(context: RoundContext) -> None:
    assert read_file(context, "src/two.txt") == {
        "path": "src/two.txt",
        "text": "needle\n",
        "bytes": 7,
    }
    text = "".join(f"line {number}\n" for number in range(10_000))
    write_file(context, "long.txt", text)
    found, offset = "", 0
    while offset is not None:
        part = read_file(context, "long.txt", offset)
        assert len(part["text"]) <= READ_BYTES and part["bytes"] == len(text)
        found, offset = found + part["text"], part.get("next_offset")
    assert found == text


def test_what_is_no_text_is_said_to_be_none(context: RoundContext) -> None:
    with pytest.raises(ValueError, match="'data'"):
        read_file(context, "data")


def test_a_text_is_written_in_place_of_what_was_there(context: RoundContext) -> None:
    assert write_file(context, "new/er/a.txt", "häuser") == {"path": "new/er/a.txt", "bytes": 7}
    write_file(context, "new/er/a.txt", "x")
    assert read_file(context, "new/er/a.txt")["text"] == "x"


def test_files_are_listed_but_for_what_machines_wrote(context: RoundContext) -> None:
    assert list_files(context)["files"] == [
        {"path": "data", "bytes": 7},
        {"path": "src/one.py", "bytes": 27},
        {"path": "src/two.txt", "bytes": 7},
    ]
    assert [each["path"] for each in list_files(context, pattern="*.py")["files"]] == ["src/one.py"]
    assert [each["path"] for each in list_files(context, "src", "*.txt")["files"]] == ["two.txt"]


def test_a_text_is_found_in_texts(context: RoundContext) -> None:
    assert search_files(context, "needle")["places"] == [
        {"path": "src/one.py", "line": 2, "text": "a needle here"},
        {"path": "src/two.txt", "line": 1, "text": "needle"},
    ]
    assert search_files(context, "needle", pattern="*.txt")["places"] == [
        {"path": "src/two.txt", "line": 1, "text": "needle"}
    ]
    assert search_files(context, "needle.*")["places"] == [], "a text, no expression"


def test_more_than_can_be_told_is_cut_and_said_to_be(context: RoundContext) -> None:
    write_file(context, "many.txt", "needle\n" * (ENTRIES + 1))
    found = search_files(context, "needle", pattern="many.txt")
    assert len(found["places"]) == ENTRIES and str(ENTRIES) in found["cut"]


def test_many_files_are_cut_too(context: RoundContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ENTRIES", 2)
    found = list_files(context)
    assert len(found["files"]) == 2 and "first 2" in found["cut"]


def test_a_part_never_cuts_a_character(context: RoundContext) -> None:
    """And parts put together are the whole, wherever the cuts fall."""
    for shift in range(4):
        text = "x" * shift + "€𝄞" * 10_000
        write_file(context, "long.txt", text)
        found, offset = "", 0
        while offset is not None:
            part = read_file(context, "long.txt", offset)
            found, offset = found + part["text"], part.get("next_offset")
        assert found == text


def test_a_part_is_a_result_that_the_history_takes_whole(context: RoundContext) -> None:
    """Else the offset of the next one would be cut off with the rest."""
    write_file(context, "long.txt", 'a "line" of text\n' * 10_000)
    assert bounded(read_file(context, "long.txt"), MOST, "it")[1] == {}


def test_what_is_not_searched_is_said(
    context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "not_searched" not in search_files(context, "needle")
    monkeypatch.setattr(files, "SEARCHED_BYTES", 10)
    found = search_files(context, "needle")
    assert [place["path"] for place in found["places"]] == ["src/two.txt"] and found[
        "not_searched"
    ].startswith("1 files")


def test_lines_are_counted_as_editors_count_them(context: RoundContext) -> None:
    write_file(context, "odd.txt", "one\x0cstill one\u2028and still\r\ntwo needle")
    assert search_files(context, "needle", pattern="odd.txt")["places"] == [
        {"path": "odd.txt", "line": 2, "text": "two needle"}
    ]


def test_a_name_that_is_no_text_is_shown_and_ends_nothing(context: RoundContext) -> None:
    assert context.workspace is not None
    for name in (b"bad\xff.txt", b"new\nline.txt"):
        with open(os.path.join(os.fsencode(context.workspace), name), "w") as file:
            file.write("needle")
    names = [each["path"] for each in storable(list_files(context, pattern="*.txt"), "it")["files"]]
    assert names == ["bad\\xff.txt", "new\nline.txt", "src/two.txt"]
    assert [
        each["path"]
        for each in storable(search_files(context, "needle", pattern="bad*"), "it")["places"]
    ] == ["bad\\xff.txt"]


@pytest.mark.parametrize(
    "call",
    [
        lambda context: read_file(context, "../outside.txt"),
        lambda context: read_file(context, "src/link.txt"),
        lambda context: write_file(context, "../outside.txt", "x"),
        lambda context: write_file(context, "src/link.txt", "x"),
        lambda context: write_file(context, "src/pipe", "x"),
        lambda context: list_files(context, ".."),
        lambda context: search_files(context, "needle", ".."),
    ],
)
def test_no_command_leaves_the_workspace(context: RoundContext, tmp_path: Path, call: Any) -> None:
    with pytest.raises(OutsideWorkspace):
        call(context)
    assert (tmp_path / "outside.txt").read_text() == "needle"


def test_a_worker_without_a_workspace_says_so() -> None:
    with pytest.raises(NoWorkspace, match="PERDURE_WORKSPACE"):
        read_file(RoundContext("g"), "a.txt")


def test_arguments_are_those_of_the_signature(context: RoundContext) -> None:
    with pytest.raises(BadReply, match="offset"):
        spec_of(read_file).carry_out({"path": "a.txt", "offset": "soon"}, context)
