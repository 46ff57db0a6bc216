"""Ids that are made nowhere else, several a round.

They have to be different, not secret; the operating system's random bytes would cost each of them a call, at which a thread lets go of the
interpreter and has to wait for it.
"""

from __future__ import annotations

import os
import random

#: Seeded by the operating system; not the module's own, which anybody's code may seed.
_source = random.Random()
os.register_at_fork(after_in_child=_source.seed)  # or parent and child would make the same


def new_digits(count: int) -> str:
    """So many random hexadecimal digits, an even number."""
    return _source.randbytes(count // 2).hex()
