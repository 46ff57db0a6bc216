"""Workspace: files inside are reached, over links too; nothing outside is, for any path."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.flows.executors.workspace import MAX_LINKS, OutsideWorkspace, Workspace
from tests.support.cases import EachCase, cases_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a secret beside it."""
    root = tmp_path / "workspace"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "src" / "b.txt").write_text("b")
    (tmp_path / "secret.txt").write_text("canary")
    (tmp_path / "workspace-secrets").mkdir()
    (tmp_path / "workspace-secrets" / "key").write_text("canary")
    return root


def read(root: Path, path: str) -> str:
    with Workspace(root).open(path) as file:
        return os.read(file, 100).decode()


@pytest.mark.parametrize(
    "path",
    [
        "a.txt",
        "./a.txt",
        "src/../a.txt",
        "src/deep/../../a.txt",
        "/a.txt",
        "src//../a.txt",
        "to-a",
        "src/up",
        "linked/../a.txt",
        "src/deep/far",
    ],
)
def test_what_is_inside_is_reached(root: Path, path: str) -> None:
    (root / "to-a").symlink_to("a.txt")
    (root / "src" / "up").symlink_to("../a.txt")
    (root / "linked").symlink_to("src")
    (root / "src" / "deep" / "far").symlink_to("../../linked/up")
    assert read(root, path) == "a"


ESCAPES = [
    "../secret.txt",
    "src/../../secret.txt",
    "src/deep/../../../secret.txt",
    "./../secret.txt",
    "/../secret.txt",
    "//../secret.txt",
    "/../../../../../../etc/passwd",
    "../workspace-secrets/key",
    "../workspace/../secret.txt",
    "src/./.././../secret.txt",
    "..",
    "../..",
    "absolute",
    "relative",
    "directory/secret.txt",
    "absolute-directory/secret.txt",
    "chain",
    "src/deep/chain",
    "linked/../../secret.txt",
    "own/secret.txt",
    "absolute-inside",
    "proc/self/environ",
    "dev-null",
    "pipe",
    "socket-like",
    "a.txt\0.png",
]


def test_nothing_outside_is_reached(root: Path, tmp_path: Path, each_case: EachCase) -> None:
    def check(path: str) -> None:
        with pytest.raises((OutsideWorkspace, IsADirectoryError)) as refused:
            read(root, path)
        assert "canary" not in str(refused.value)

    (root / "absolute").symlink_to(tmp_path / "secret.txt")
    (root / "relative").symlink_to("../secret.txt")
    (root / "directory").symlink_to("..")
    (root / "absolute-directory").symlink_to(tmp_path)
    (root / "chain").symlink_to("src/deep/chain")
    (root / "src" / "deep" / "chain").symlink_to("../../../secret.txt")
    (root / "linked").symlink_to("src")
    (root / "own").symlink_to("../workspace/..")
    (root / "absolute-inside").symlink_to(root / "a.txt")
    (root / "proc").symlink_to("/proc")
    (root / "dev-null").symlink_to("/dev/null")
    os.mkfifo(root / "pipe")
    (root / "socket-like").mkdir()
    each_case(cases_of(ESCAPES), check)


@pytest.mark.parametrize(
    "path", ["../made.txt", "directory/made.txt", "dangling", "src/../../made.txt"]
)
def test_nothing_outside_is_written(root: Path, tmp_path: Path, path: str) -> None:
    (root / "directory").symlink_to("..")
    (root / "dangling").symlink_to("../made.txt")
    before = sorted(tmp_path.rglob("*"))
    with (
        pytest.raises(OutsideWorkspace),
        Workspace(root).open(path, os.O_WRONLY | os.O_CREAT, parents=True),
    ):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_links_in_a_ring_are_given_up(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels"):
        read(root, "one")
    for number in range(MAX_LINKS + 1):
        (root / f"link{number + 1}").symlink_to("a.txt" if not number else f"link{number}")
    assert read(root, f"link{MAX_LINKS}") == "a"
    with pytest.raises(OSError, match="Too many levels"):
        read(root, f"link{MAX_LINKS + 1}")


def test_missing_directories_are_made_when_that_is_asked_for(root: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match="new/er/file"),
        Workspace(root).open("new/er/file", os.O_WRONLY | os.O_CREAT),
    ):
        pass
    with Workspace(root).open("new/er/file", os.O_WRONLY | os.O_CREAT, parents=True) as file:
        os.write(file, b"x")
    assert (root / "new" / "er" / "file").read_text() == "x"


def test_no_descriptor_stays_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("src/b.txt", "nowhere/b.txt", "src/../../secret.txt", "src"):
        try:
            read(root, path)
        except OSError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


@contextmanager
def going_on(step: Callable[[], None]) -> Iterator[None]:
    """Repeat the step in a thread during the block."""
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            step()

    somebody = threading.Thread(target=go_on)
    somebody.start()
    try:
        yield
    finally:
        over.set()
        somebody.join()


def test_who_swaps_a_directory_for_a_link_meanwhile_gets_nobody_out(
    root: Path, tmp_path: Path
) -> None:
    """A thousand readings beside a thread that goes on swapping: each finds the file inside, or
    nothing.
    """
    inside, link, away = root / "src", root / "spare", root / "away"
    link.symlink_to(tmp_path)
    (tmp_path / "b.txt").write_text("canary")

    def swap() -> None:
        for first, second in ((inside, away), (link, inside), (inside, link), (away, inside)):
            os.rename(first, second)

    found: list[str] = []
    refused = 0
    with going_on(swap):
        while len(found) < 1000 or not refused:
            try:
                found.append(read(root, "src/b.txt"))
            except OSError:
                refused += 1
    assert set(found) == {"b"}


def test_who_turns_a_link_meanwhile_gets_no_writing_out(root: Path, tmp_path: Path) -> None:
    """Two hundred writings over a link that leads in, and out, and in: each writes inside, or
    nothing.
    """
    (tmp_path / "b.txt").write_text("canary")
    before = sorted(tmp_path.iterdir())
    (root / "turned").symlink_to("src")

    def turn() -> None:
        for target in ("..", "src"):
            (root / "fresh").symlink_to(target)
            os.rename(root / "fresh", root / "turned")

    done = refused = 0
    with going_on(turn):
        while done < 200 or not refused:
            try:
                Workspace(root).write("turned/b.txt", b"written")
                done += 1
            except OSError:
                refused += 1
    assert (root / "src" / "b.txt").read_text() == "written"
    assert (tmp_path / "b.txt").read_text() == "canary" and sorted(tmp_path.iterdir()) == before


def test_a_write_keeps_the_mode_and_goes_where_a_link_leads(root: Path) -> None:
    (root / "a.txt").chmod(0o750)
    (root / "to-a").symlink_to("a.txt")
    Workspace(root).write("to-a", b"new")
    assert (root / "a.txt").read_text() == "new" and (
        root / "a.txt"
    ).stat().st_mode & 0o777 == 0o750
    assert (root / "to-a").is_symlink()


@pytest.mark.parametrize(
    "path",
    [
        "../made.txt",
        "directory/made.txt",
        "dangling",
        "src/../../made.txt",
        "absolute",
        "pipe",
        "src",
        ".",
        "",
    ],
)
def test_no_write_leaves_the_workspace_or_replaces_what_is_no_file(
    root: Path, tmp_path: Path, path: str
) -> None:
    (root / "directory").symlink_to("..")
    (root / "dangling").symlink_to("../made.txt")
    (root / "absolute").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(root / "pipe")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((OutsideWorkspace, IsADirectoryError)):
        Workspace(root).write(path, b"x")
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "secret.txt").read_text() == "canary"


def test_a_write_that_fails_leaves_what_was_there_and_nothing_beside_it(root: Path) -> None:
    """The disk is full: the limit of a file's size stands for it."""
    before, limit = sorted(root.rglob("*")), resource.getrlimit(resource.RLIMIT_FSIZE)
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            Workspace(root).write("a.txt", b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handled)
    assert sorted(root.rglob("*")) == before and (root / "a.txt").read_text() == "a"


def test_a_reader_finds_the_old_content_or_the_new_and_never_a_part(root: Path) -> None:
    old, new, over = b"o" * 200_000, b"n" * 200_000, threading.Event()
    Workspace(root).write("a.txt", old)

    def write() -> None:
        while not over.is_set():
            for data in (new, old):
                Workspace(root).write("a.txt", data)

    writing = threading.Thread(target=write)
    writing.start()
    seen: set[bytes] = set()
    try:
        while len(seen) < 2:
            seen.add((root / "a.txt").read_bytes())
    finally:
        over.set()
        writing.join()
    assert seen == {old, new}


def test_a_workspace_is_a_directory_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere"):
        Workspace(tmp_path / "nowhere")
