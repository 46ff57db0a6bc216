"""The demonstration's repository has the history that it claims."""

from __future__ import annotations

import subprocess
from pathlib import Path

from perdure.flows.library.git.demo_repository import make_demo_repository
from tests.support.git_repositories import git


def test_the_demo_repository_has_one_fault_on_a_merged_branch_and_git_finds_it(
    tmp_path: Path,
) -> None:
    demo = make_demo_repository(tmp_path / "demo")
    assert int(git(demo.path, "rev-list", "--count", "main")) == demo.commits
    assert len(git(demo.path, "rev-list", "--merges", "main").split()) == 5
    assert demo.first_bad not in git(demo.path, "rev-list", "--first-parent", "main").split()
    assert git(demo.path, "status", "--porcelain") == ""
    git(demo.path, "bisect", "start", demo.bad, demo.good)
    assert f"{demo.first_bad} is the first bad commit" in git(
        demo.path, "bisect", "run", "sh", "-c", demo.test
    )


def test_the_good_commit_passes_and_the_bad_one_fails(tmp_path: Path) -> None:
    demo = make_demo_repository(tmp_path / "demo")
    assert (
        subprocess.run(
            demo.test, shell=True, cwd=demo.path, capture_output=True, check=False
        ).returncode
        == 1
    )
    git(demo.path, "checkout", "--quiet", demo.good)
    assert (
        subprocess.run(
            demo.test, shell=True, cwd=demo.path, capture_output=True, check=False
        ).returncode
        == 0
    )


def test_the_demo_repository_is_the_same_every_time(tmp_path: Path) -> None:
    assert (
        make_demo_repository(tmp_path / "one").first_bad
        == make_demo_repository(tmp_path / "two").first_bad
    )
    assert git(tmp_path / "one", "rev-parse", "main") == git(tmp_path / "two", "rev-parse", "main")
