"""Ids: different in every process, whoever forked it and whatever anybody seeds."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from perdure.worker.ids import new_digits

#: A parent and the child that it forked, as the processes of a pool are, each say their next id.
FORKED = """
import sys
from {library} import Process
from perdure.worker.ids import new_digits

def say():
    print(new_digits(32), flush=True)

new_digits(32)
child = Process(target=say)
child.start()
child.join()
say()
"""


def test_they_are_hexadecimal_digits_as_many_as_asked_for() -> None:
    assert len(new_digits(64)) == 64
    assert int(new_digits(32), 16) >= 0


def test_what_anybody_seeds_makes_no_id_twice() -> None:
    random.seed(1)
    first = new_digits(32)
    random.seed(1)
    assert new_digits(32) != first


@pytest.mark.parametrize("library", ["multiprocessing", "billiard"])
def test_a_forked_process_makes_others_than_its_parent(library: str) -> None:
    program = FORKED.format(library=library)
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    ).stdout.split()
    assert len(found) == len(set(found)) == 2, found
