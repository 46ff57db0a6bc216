"""Ids: different under any seed."""

from __future__ import annotations

import random

from perdure.worker.ids import new_digits


def test_they_are_hexadecimal_digits_as_many_as_asked_for() -> None:
    assert len(new_digits(64)) == 64
    assert int(new_digits(32), 16) >= 0


def test_what_anybody_seeds_makes_no_id_twice() -> None:
    random.seed(1)
    first = new_digits(32)
    random.seed(1)
    assert new_digits(32) != first
