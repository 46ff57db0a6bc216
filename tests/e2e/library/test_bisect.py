"""The ``bisect`` flow, played round by round on real repositories, compared with ``git bisect
run``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.flows.core.errors import FatalError, RoundStopped
from perdure.flows.core.outcomes import Turn
from perdure.flows.library.git.demo_repository import make_demo_repository
from perdure.flows.library.git.worktree import worktrees_root
from perdure.flows.rounds.registry import make
from tests.support.flow_player import PlayedRun
from tests.support.git_repositories import (
    TEST,
    GeneratedRepository,
    digest,
    git,
    git_bisect_run,
    linear,
    random_shape,
)


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))


def inputs_for(generated: GeneratedRepository, **more: Any) -> dict[str, Any]:
    return {
        "repo": str(generated.path),
        "good": generated.good,
        "bad": generated.bad,
        "test": TEST,
        **more,
    }


@pytest.mark.parametrize("seed", range(200, 204))
def test_it_names_gits_commit_with_as_many_tests_and_leaves_the_repository_alone(
    tmp_path: Path, seed: int
) -> None:
    generated = random_shape(seed).write(tmp_path / "repository")
    before = digest(generated.path)
    end = PlayedRun("bisect", inputs_for(generated)).end()
    assert digest(generated.path) == before
    assert list(worktrees_root().iterdir()) == []
    gits = git_bisect_run(generated, tmp_path / "work")
    number = list(generated.exits).index(generated.first_bad)
    assert end.output["status"] == "finished"
    assert end.answer == {
        "commit": gits.first_bad,
        "author": f"Author {number} <{number}@example.com>",
        "subject": f"Commit {number}",
        "tests": len(gits.tested),
        "skipped": 0,
        "text": end.answer["text"],
    }
    assert generated.first_bad[:12] in end.answer["text"]


def test_where_skips_leave_it_open_the_answer_lists_what_remains(tmp_path: Path) -> None:
    generated = linear(12, 6, skipped=frozenset({5, 6, 7})).write(tmp_path / "repository")
    answer = PlayedRun("bisect", inputs_for(generated)).end().answer
    gits = git_bisect_run(generated, tmp_path / "work")
    ids = list(generated.exits)
    assert answer["candidates"] == [ids[8], ids[7], ids[6], ids[5]]
    assert frozenset(answer["candidates"]) == gits.candidates
    assert (answer["tests"], answer["skipped"]) == (len(gits.tested), 3)
    assert "commit" not in answer


def test_the_demo_repository_gives_its_fault(tmp_path: Path) -> None:
    demo = make_demo_repository(tmp_path / "demo")
    run = PlayedRun(
        "bisect", {"repo": str(demo.path), "good": demo.good, "bad": demo.bad, "test": demo.test}
    )
    answer = run.end().answer
    assert (answer["commit"], answer["subject"]) == (demo.first_bad, "Make the loop simpler")


def test_watchers_see_how_many_commits_are_left_shrink_to_one(tmp_path: Path) -> None:
    generated = linear(33, 20).write(tmp_path / "repository")
    run = PlayedRun("bisect", inputs_for(generated))
    left = [run.values["left"] for _ in run.rounds() if run.node == "Executor" or run.step % 2]
    assert left[0] == 32
    assert left[-1] == 1
    assert left == sorted(left, reverse=True)
    assert run.summaries[0]["left"] == "32"
    context = PlayedRun("bisect", inputs_for(generated)).context()
    make("bisect").play("Controller", context)
    assert context.signals.progress == {
        "done": 0,
        "total": 5,
        "text": "32 commits left, about 5 tests to go",
    }


def test_branches_that_move_during_the_run_do_not_matter(tmp_path: Path) -> None:
    generated = linear(20, 7).write(tmp_path / "repository")
    git(generated.path, "tag", "before", generated.good)
    run = PlayedRun("bisect", inputs_for(generated, good="before", bad="main"))
    run.round()
    git(generated.path, "tag", "--force", "before", generated.bad)
    git(generated.path, "update-ref", "refs/heads/main", generated.good)
    assert run.end().answer["commit"] == generated.first_bad


def test_several_good_revisions_narrow_it_from_the_start(tmp_path: Path) -> None:
    generated = linear(20, 12).write(tmp_path / "repository")
    good = [generated.good, list(generated.exits)[10]]
    run = PlayedRun("bisect", inputs_for(generated, good=good))
    run.round()
    assert run.values["left"] == 9
    assert run.end().answer["commit"] == generated.first_bad


def test_a_commit_whose_test_hangs_is_skipped(tmp_path: Path) -> None:
    generated = linear(8, 2).write(tmp_path / "repository")
    test = f'test "$(cat number)" != 3 || sleep 600; {TEST}'
    answer = PlayedRun("bisect", inputs_for(generated, test=test, timeout=0.5)).end().answer
    assert (answer["commit"], answer["skipped"]) == (generated.first_bad, 1)


def test_a_test_played_twice_gives_the_same_verdict(tmp_path: Path) -> None:
    generated = linear(8, 4).write(tmp_path / "repository")
    run = PlayedRun("bisect", inputs_for(generated))
    run.round()
    outcomes = [run.flow.play("Executor", run.context()) for _ in range(2)]
    verdicts = [{**outcome.turns[0].observation, "seconds": 0} for outcome in outcomes]  # type: ignore[union-attr]
    assert verdicts[0] == verdicts[1]


def test_a_cancelled_round_gives_no_verdict(tmp_path: Path) -> None:
    generated = linear(8, 4).write(tmp_path / "repository")
    run = PlayedRun("bisect", inputs_for(generated, test="sleep 600"))
    run.round()
    context = run.context()
    context.cancelled.set()
    with pytest.raises(RoundStopped):
        run.round(context)
    assert list(worktrees_root().iterdir()) == []


def test_a_command_that_no_commit_can_run_is_an_error_and_not_an_answer(tmp_path: Path) -> None:
    generated = linear(8, 4).write(tmp_path / "repository")
    with pytest.raises(FatalError, match=r"cannot be run.*no-such-command"):
        PlayedRun("bisect", inputs_for(generated, test="no-such-command")).end()


def test_a_command_that_is_missing_at_bad_commits_only_is_the_fault_looked_for(
    tmp_path: Path,
) -> None:
    generated = linear(8, 2).write(tmp_path / "repository")
    test = 'test "$(cat verdict)" = 0 || no-such-command'
    answer = PlayedRun("bisect", inputs_for(generated, test=test)).end().answer
    assert answer["commit"] == generated.first_bad


def test_an_error_of_the_command_itself_ends_the_run_with_its_words(tmp_path: Path) -> None:
    generated = linear(8, 4).write(tmp_path / "repository")
    run = PlayedRun("bisect", inputs_for(generated))
    run.round()
    run.turns.append(Turn(None, {"error": "OSError: no space left"}))
    run.node = "Controller"
    with pytest.raises(FatalError, match="no space left"):
        run.round()


def test_bounds_that_make_no_bisection_are_clear_errors(tmp_path: Path) -> None:
    generated = random_shape(7).write(tmp_path / "repository")
    git(generated.path, "checkout", "--quiet", "--orphan", "other")
    git(generated.path, "commit", "--quiet", "-m", "no history in common")
    git(generated.path, "checkout", "--quiet", "-b", "side", generated.good)
    git(generated.path, "commit", "--quiet", "--allow-empty", "-m", "beside")
    wrong = {
        "no such directory": {"repo": str(tmp_path / "nowhere")},
        "git says: .*not a git repository": {"repo": str(tmp_path)},
        "'v9' names no commit": {"good": "v9"},
        "'--all' names no commit": {"bad": "--all"},
        "are the same commit": {"good": generated.bad},
        "good and bad swapped": {"good": generated.bad, "bad": generated.good},
        "share no history": {"good": "other"},
        f"diverge at {generated.good}": {"good": "side"},
    }
    for words, inputs in wrong.items():
        with pytest.raises(FatalError, match=words):
            PlayedRun("bisect", inputs_for(generated, **inputs)).round()
