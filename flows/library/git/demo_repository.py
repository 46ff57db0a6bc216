"""A repository for trying out ``bisect``.

It holds a till whose total becomes wrong in one commit, on a branch that is merged later.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perdure.flows.library.git.fast_import import NewRepository

_TOTAL = """#!/bin/sh
# Reads lines "name price count" and prints what they cost together.
total=0
while read -r name price count; do
    total=$((total + price * count))
done
echo "$total"
"""
_BROKEN = _TOTAL.replace("price * count", "price")
_CHECK = """#!/bin/sh
# Two teas and three milks cost 860.
total=$(printf 'tea 250 2\\nmilk 120 3\\n' | sh total.sh)
echo "total: $total, expected: 860"
test "$total" = 860
"""
_AUTHORS = (
    "Ada Byron <ada@example.com>",
    "Grace Murray <grace@example.com>",
    "Alan Mathison <alan@example.com>",
)
_GOODS = ("tea", "milk", "bread", "salt", "rice", "beans", "honey", "flour", "oats", "plums")
#: Each branch: the commit of the main line where it starts, its number of commits, and its merge.
#: The merge happens after this many further commits of the main line.
_BRANCHES = ((6, 5, 3), (15, 7, 4), (27, 8, 5), (38, 6, 3), (50, 4, 6))
_MAIN_LINE = 60
#: The fault: number of the branch, and of the commit within it.
_FAULT = (2, 4)


@dataclass(frozen=True, slots=True)
class DemoRepository:
    """The inputs for ``bisect``, and the expected answer.

    Attributes:
        path: The directory of the repository.
        good: The tag of a good commit.
        bad: The branch whose last commit is bad.
        test: A shell command that passes at good commits.
        first_bad: The id of the first commit at which the test fails.
        commits: The number of commits in the repository.
    """

    path: Path
    good: str
    bad: str
    test: str
    first_bad: str
    commits: int


def make_demo_repository(path: Path) -> DemoRepository:
    """Create a git repository for trying out ``bisect``. ``path`` is a new or empty directory.

    The commits and their ids are the same every time.
    """
    new = NewRepository()
    story = _Story(new)
    tip = new.commit(
        [],
        {"total.sh": _TOTAL, "check.sh": _CHECK, "prices.txt": ""},
        "A till that adds up",
        _AUTHORS[0],
    )
    merges: dict[int, list[tuple[int, bool]]] = {}
    for position in range(1, _MAIN_LINE + 1):
        tip = story.stock(tip, "shop")
        for branch, (start, length, later) in enumerate(_BRANCHES):
            if position == start:
                merges.setdefault(start + later, []).append(
                    (story.branch(branch, tip, length), branch == _FAULT[0])
                )
        for side, broken in merges.pop(position, []):
            # A merge starts with the files of its first parent, so the branch's changes are listed
            # again.
            files = {**story.files.pop(side), **({"total.sh": _BROKEN} if broken else {})}
            tip = new.commit(
                [tip, side], files, f"Merge the work on {story.names[side]}", _AUTHORS[1]
            )
    new.tag("v1.0", 0)
    ids = new.write(path)
    return DemoRepository(path, "v1.0", "main", "sh check.sh", ids[story.fault], len(ids))


class _Story:
    """The commits of the demo repository: harmless ones, and the one with the fault."""

    def __init__(self, new: NewRepository) -> None:
        self.new = new
        self.files: dict[int, dict[str, str]] = {}
        self.names: dict[int, str] = {}
        self.fault = -1
        self._made = 0

    def stock(self, parent: int, place: str) -> int:
        """Add a harmless commit with a new price file.

        Args:
            place: the directory of the file.

        Returns:
            The number of the commit.
        """
        self._made += 1
        goods = _GOODS[self._made % len(_GOODS)]
        files = {f"{place}/{goods}-{self._made}.txt": f"{goods} {self._made * 7 % 300 + 20}\n"}
        commit = self.new.commit(
            [parent],
            files,
            f"Take up {goods}, lot {self._made}",
            _AUTHORS[self._made % len(_AUTHORS)],
        )
        self.files[commit] = {**self.files.get(parent, {}), **files} if place != "shop" else {}
        return commit

    def branch(self, branch: int, start: int, length: int) -> int:
        """Add ``length`` commits of a branch after ``start``.

        Args:
            branch: the position of the branch in ``_BRANCHES``.

        Returns:
            The number of the last commit.
        """
        tip, name = start, _GOODS[branch]
        for position in range(length):
            if (branch, position) == _FAULT:
                files = {"total.sh": _BROKEN}
                self.fault = self.new.commit([tip], files, "Make the loop simpler", _AUTHORS[2])
                self.files[self.fault] = self.files.get(tip, {})
                tip = self.fault
            else:
                tip = self.stock(tip, name)
        self.names[tip] = name
        return tip
