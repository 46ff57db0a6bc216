"""The commit to test next, compared with git's own choice on generated histories."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from perdure.flows.library.git.bisection import away_from
from perdure.flows.library.git.repository import Repository
from tests.support.git_repositories import GeneratedRepository, git_bisect_run, linear, random_shape


def narrow(generated: GeneratedRepository) -> tuple[list[str], list[str]]:
    """Play a bisection without running tests: the remaining candidates, and the commits tested, in
    order.
    """
    repository = Repository.open(str(generated.path))
    good, bad, skipped, tested = [generated.good], generated.bad, [], []  # type: list[str], str, list[str], list[str]
    while (commit := repository.halve(bad, good, skipped).commit) is not None:
        assert commit not in tested, "a commit was chosen twice"
        tested.append(commit)
        outcome = generated.exits[commit]
        if outcome == 125:
            skipped.append(commit)
        elif outcome:
            bad = commit
        else:
            good.append(commit)
    return repository.candidates(bad, good), tested


@pytest.mark.parametrize("seed", range(8))
def test_on_histories_with_merges_it_tests_what_git_tests_and_names_what_git_names(
    tmp_path: Path, seed: int
) -> None:
    generated = random_shape(seed).write(tmp_path / "repository")
    candidates, tested = narrow(generated)
    gits = git_bisect_run(generated, tmp_path / "work")
    assert candidates == [generated.first_bad] == [gits.first_bad]
    assert tested == gits.tested


@pytest.mark.parametrize("seed", range(100, 110))
def test_with_skips_it_decides_where_git_decides_and_keeps_the_true_commit_where_git_cannot(
    tmp_path: Path, seed: int
) -> None:
    generated = random_shape(seed, skips=True).write(tmp_path / "repository")
    candidates, tested = narrow(generated)
    gits = git_bisect_run(generated, tmp_path / "work")
    assert generated.first_bad in candidates
    assert frozenset(candidates) == (gits.candidates or {gits.first_bad})
    assert tested == gits.tested


def test_the_generated_histories_have_merges_and_undecided_ones() -> None:
    shapes = [random_shape(seed, skips=True) for seed in range(100, 110)]
    assert any(len(parents) > 2 for shape in shapes for parents in shape.parents)
    assert sum(len(parents) == 2 for shape in shapes for parents in shape.parents) > 20
    assert any(shape.first_bad in shape.skipped for shape in shapes)


@pytest.mark.parametrize("first_bad", [1, 63, 64, 99])
def test_a_hundred_commits_take_no_more_than_seven_tests(tmp_path: Path, first_bad: int) -> None:
    generated = linear(100, first_bad).write(tmp_path / "repository")
    candidates, tested = narrow(generated)
    assert candidates == [generated.first_bad]
    assert len(tested) <= math.ceil(math.log2(99))


def test_what_is_left_counts_the_known_bad_commit_and_the_steps_end_at_zero(tmp_path: Path) -> None:
    generated = linear(9, 5).write(tmp_path / "repository")
    repository = Repository.open(str(generated.path))
    ids = list(generated.exits)
    first = repository.halve(generated.bad, [generated.good], ())
    assert (first.left, first.steps) == (8, 3)
    last = repository.halve(ids[5], [ids[4]], ())
    assert (last.commit, last.left, last.steps) == (None, 1, 0)


def test_a_skipped_commit_is_never_chosen_and_the_bad_one_only_when_no_other_is_left() -> None:
    commits = [f"c{number}" for number in range(40)]
    for count in range(1, 40):
        skipped = frozenset(commits[:count])
        chosen = away_from(skipped, commits, bad="c39")
        assert chosen not in skipped
        assert (chosen == "c39") == (count == 39)
