"""Generated git repositories with a known first bad commit, and ``git bisect run`` on them."""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from perdure.flows.library.git.environment import clean_environment
from perdure.flows.library.git.fast_import import NewRepository

#: Exits as the checked out commit's file says: 0 good, 1 bad, 125 skip.
TEST = 'exit "$(cat verdict)"'


@dataclass(frozen=True)
class GeneratedRepository:
    """A repository whose commits are bad if, and only if, they contain ``first_bad``.

    ``exits`` holds the test's exit code by commit id.
    """

    path: Path
    good: str
    bad: str
    first_bad: str
    exits: dict[str, int]


@dataclass(frozen=True)
class Shape:
    """A history before it is written: parents by number, and which commits are bad and which cannot
    be tested.
    """

    parents: list[list[int]]
    good: int
    first_bad: int
    skipped: frozenset[int] = frozenset()

    def ancestors(self, commit: int) -> set[int]:
        """Return the commits contained in ``commit``, itself among them."""
        found, open_ = set(), [commit]
        while open_:
            one = open_.pop()
            if one not in found:
                found.add(one)
                open_ += self.parents[one]
        return found

    def write(self, path: Path) -> GeneratedRepository:
        """Make the repository, whose last commit is bad."""
        new, exits = NewRepository(), []
        for number, parents in enumerate(self.parents):
            exit_code = (
                125 if number in self.skipped else int(self.first_bad in self.ancestors(number))
            )
            exits.append(exit_code)
            new.commit(
                parents,
                {"verdict": f"{exit_code}\n", "number": f"{number}\n"},
                f"Commit {number}",
                f"Author {number} <{number}@example.com>",
            )
        ids = new.write(path)
        return GeneratedRepository(
            path, ids[self.good], ids[-1], ids[self.first_bad], dict(zip(ids, exits, strict=True))
        )


def linear(length: int, first_bad: int, skipped: frozenset[int] = frozenset()) -> Shape:
    """Make a history without merges."""
    return Shape(
        [[number - 1] if number else [] for number in range(length)], 0, first_bad, skipped
    )


def random_shape(seed: int, most: int = 60, skips: bool = False) -> Shape:
    """Make a history with branches and merges, some of three parents; with ``skips``, some commits
    cannot be tested.
    """
    chance = random.Random(seed)
    heads, parents = [0], [[]]  # type: tuple[list[int], list[list[int]]]
    for number in range(1, chance.randint(4, most)):
        kind = chance.random()
        if kind < 0.25 and len(heads) > 1:
            merged = chance.sample(heads, min(len(heads), chance.choice([2, 2, 2, 3])))
            parents.append(merged)
            heads = [head for head in heads if head not in merged]
        elif kind < 0.5:
            parents.append([chance.randrange(number)])
            heads = [head for head in heads if head != parents[-1][0]]
        else:
            parents.append([chance.choice(heads)])
            heads.remove(parents[-1][0])
        heads.append(number)
    if len(heads) > 1:
        parents.append(heads)
    tip = len(parents) - 1
    first_bad = chance.randint(1, tip)
    shape = Shape(parents, 0, first_bad)
    good = chance.choice(
        [number for number in range(tip) if first_bad not in shape.ancestors(number)]
    )
    share = chance.choice([0.1, 0.4, 0.8]) if skips else 0.0
    return Shape(
        parents,
        good,
        first_bad,
        frozenset(number for number in range(1, tip) if chance.random() < share),
    )


@dataclass(frozen=True)
class GitsAnswer:
    """The result of ``git bisect run``: the first bad commit, or the candidates; and the commits it
    tested, in order.
    """

    first_bad: str | None
    candidates: frozenset[str]
    tested: list[str]


def git_bisect_run(repository: GeneratedRepository, work: Path, test: str = TEST) -> GitsAnswer:
    """Run git bisect on a clone at ``work``."""
    log = work.with_suffix(".log")
    log.touch()
    git(work.parent, "clone", "--quiet", "--shared", "--template=", str(repository.path), str(work))
    git(work, "bisect", "start", repository.bad, repository.good)
    said = git(
        work, "bisect", "run", "sh", "-c", f'git rev-parse HEAD >>"{log}"; {test}', check=False
    )
    named = re.search(r"^([0-9a-f]{40}) is the first bad commit", said, re.MULTILINE)
    undecided = said.partition("The first bad commit could be any of:")[2]
    return GitsAnswer(
        named and named[1],
        frozenset(re.findall(r"^[0-9a-f]{40}$", undecided, re.MULTILINE)),
        log.read_text().split(),
    )


def git(directory: Path, *arguments: str, check: bool = True) -> str:
    """Run git and return its output."""
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments]
    return subprocess.run(
        command,
        cwd=directory,
        env=clean_environment(LC_ALL="C"),
        capture_output=True,
        text=True,
        check=check,
    ).stdout


def digest(folder: Path) -> str:
    """Return a digest of names, modes, times of change and contents of all below a folder.

    The times of git's objects are left out: git renews them when a test writes the same object into
    its own worktree.
    """
    seen = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        seen.update(
            f"{path.relative_to(folder)} {status.st_mode} {0 if '.git/objects' in str(path) else status.st_mtime_ns}\n".encode()
        )
        if path.is_file():
            seen.update(path.read_bytes())
    return seen.hexdigest()
