"""Worktrees: of one's own, away from the repository, removed also after a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perdure.flows.core.errors import FatalError, RetryableError
from perdure.flows.library.git.repository import Repository
from perdure.flows.library.git.verdict import CommitTest, judge
from perdure.flows.library.git.worktree import own_worktree, remove_abandoned, worktrees_root
from tests.support.git_repositories import GeneratedRepository, digest, git, linear
from tests.support.os_processes import alive, numbers, wait_for


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "worktrees"
    folder.mkdir()
    return folder


@pytest.fixture
def generated(tmp_path: Path) -> GeneratedRepository:
    return linear(6, 3, skipped=frozenset({2})).write(tmp_path / "repository")


def verdict_on(
    generated: GeneratedRepository, commit: str, root: Path, test: str, timeout: float = 60
) -> CommitTest:
    repository = Repository.open(str(generated.path))
    return judge(repository, commit, test, root=root, timeout=timeout, cancelled=threading.Event())


@pytest.mark.parametrize(
    ("exit_code", "outcome"),
    [(0, "good"), (1, "bad"), (124, "bad"), (125, "skip"), (126, "bad"), (127, "bad")],
)
def test_the_exit_code_means_what_it_means_to_git(
    generated: GeneratedRepository, root: Path, exit_code: int, outcome: str
) -> None:
    verdict = verdict_on(generated, generated.bad, root, f"exit {exit_code}")
    assert (verdict.outcome, verdict.exit) == (outcome, exit_code)


@pytest.mark.parametrize("test", ["exit 128", "exit 255", "kill -SEGV $$"])
def test_an_exit_code_that_stops_git_ends_the_run_in_plain_words(
    generated: GeneratedRepository, root: Path, test: str
) -> None:
    with pytest.raises(FatalError, match=generated.bad):
        verdict_on(generated, generated.bad, root, f"echo last words; {test}")
    assert list(root.iterdir()) == []


def test_a_test_over_its_time_says_nothing_and_is_skipped(
    generated: GeneratedRepository, root: Path
) -> None:
    verdict = verdict_on(generated, generated.bad, root, "echo waiting; sleep 600", timeout=0.3)
    assert (verdict.outcome, verdict.exit, verdict.tail) == ("skip", None, "waiting\n")


def test_the_test_runs_at_the_commit_in_a_worktree_with_history_and_tags(
    generated: GeneratedRepository, root: Path
) -> None:
    commit = list(generated.exits)[4]
    git(generated.path, "tag", "v4", commit)
    verdict = verdict_on(
        generated,
        commit,
        root,
        "cat number; git describe --tags; git rev-list --count HEAD; git status --short",
    )
    assert verdict.tail.split() == ["4", "v4", "5"]


def test_the_repository_is_never_touched_whatever_the_test_does_in_its_worktree(
    generated: GeneratedRepository, root: Path
) -> None:
    (generated.path / "number").write_text("work in progress\n")
    before = digest(generated.path)
    commit = "git -c user.name=a -c user.email=b commit -qam x"
    test = f"echo x >number && {commit} && git tag t && git gc -q && rm -rf *; git worktree list | wc -l"
    verdict = verdict_on(generated, generated.bad, root, test)
    assert (verdict.exit, verdict.tail.split()[-1]) == (0, "1")
    assert digest(generated.path) == before
    assert list(root.iterdir()) == []


def test_variables_that_redirect_git_do_not(
    generated: GeneratedRepository, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = linear(3, 1).write(tmp_path / "elsewhere")
    before = digest(elsewhere.path)
    monkeypatch.setenv("GIT_DIR", str(elsewhere.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(elsewhere.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert verdict_on(generated, generated.bad, root, "test $(cat number) = 5").outcome == "good"
    assert digest(elsewhere.path) == before


def test_hooks_of_the_user_do_not_run(
    generated: GeneratedRepository, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    (hooks / "post-checkout").chmod(0o755)
    (tmp_path / "gitconfig").write_text(f"[core]\n\thooksPath = {hooks}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    verdict_on(generated, generated.bad, root, "true")
    assert not (tmp_path / "hooked").exists()


def test_a_bare_repository_and_a_linked_worktree_can_be_tested(
    generated: GeneratedRepository, root: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(generated.path), "bare")
    git(generated.path, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    for path in (tmp_path / "bare", tmp_path / "linked"):
        repository = Repository.open(str(path))
        verdict = judge(
            repository,
            generated.bad,
            "cat number",
            root=root,
            timeout=60,
            cancelled=threading.Event(),
        )
        assert verdict.tail == "5\n"


def test_a_commit_that_cannot_be_checked_out_is_tried_again_and_leaves_nothing(
    generated: GeneratedRepository, root: Path
) -> None:
    with pytest.raises(RetryableError, match="0123456789"):
        verdict_on(generated, "0123456789" * 4, root, "true")
    assert list(root.iterdir()) == []


def test_folders_that_a_test_made_read_only_are_removed(
    generated: GeneratedRepository, root: Path
) -> None:
    verdict_on(generated, generated.bad, root, "mkdir -p a/b && touch a/b/c && chmod -R a-w a")
    assert list(root.iterdir()) == []


CRASHING = """
import sys, threading
from pathlib import Path
from perdure.flows.library.git.repository import Repository
from perdure.flows.library.git.verdict import judge
judge(Repository.open(sys.argv[1]), sys.argv[2], sys.argv[3], root=Path(sys.argv[4]), timeout=600, cancelled=threading.Event())
"""


def test_after_a_crash_the_next_test_removes_the_worktree_and_kills_what_ran_in_it(
    generated: GeneratedRepository, root: Path, tmp_path: Path
) -> None:
    before = digest(generated.path)
    pids = tmp_path / "pids"
    test = f"echo $$ >>{pids}; python3 -c 'import os, time; os.setsid(); time.sleep(600)' & echo $! >>{pids}; wait"
    worker = subprocess.Popen(
        [sys.executable, "-c", CRASHING, str(generated.path), generated.bad, test, str(root)]
    )
    try:
        left_running = numbers(pids, 2)
        assert remove_abandoned(root) == [], "the worktree of a living worker is not abandoned"
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert all(alive(process) for process in left_running)
    assert len(list(root.iterdir())) == 2, "a worktree and its lock file"

    assert len(remove_abandoned(root)) == 1
    assert list(root.iterdir()) == []
    wait_for(lambda: not any(alive(process) for process in left_running))
    assert digest(generated.path) == before


def test_worktrees_in_use_by_other_threads_are_not_abandoned(root: Path) -> None:
    with own_worktree(root) as one, own_worktree(root) as other:
        assert remove_abandoned(root) == []
        assert one.path.is_dir() and other.path.is_dir() and one.path != other.path
    assert list(root.iterdir()) == []


def test_many_at_once_never_take_each_others_worktrees(root: Path) -> None:
    lost: list[str] = []

    def make_and_sweep() -> None:
        for _ in range(10):
            remove_abandoned(root)
            with own_worktree(root) as worktree:
                remove_abandoned(root)
                if not worktree.path.is_dir():
                    lost.append(worktree.path.name)

    threads = [threading.Thread(target=make_and_sweep) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
    assert list(root.iterdir()) == []


def test_a_folder_that_others_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = worktrees_root()
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(FatalError, match=f"perdure-bisect-{os.getuid()}"):
        worktrees_root()
