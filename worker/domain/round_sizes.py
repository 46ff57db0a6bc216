"""Size limits of a round: what it adds to its run, and the run's named values.

The characters are counted first. Bytes are measured only if that count is not conclusive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.flows.core.errors import UnstorableValue
from perdure.worker.domain.record import VALUE, Record
from perdure.worker.domain.settlement import Settlement

if TYPE_CHECKING:
    from perdure.worker.settings import Settings

#: Maximum bytes of one character in UTF-8.
MOST_BYTES = 4


def check_sizes(record: Record, settlement: Settlement, settings: Settings) -> None:
    """Raise UnstorableValue if a round adds too much, or the named values get too large."""
    if _surely_fits(record, settlement, settings):
        return
    new = [text for name, text in settlement.fields.items() if record.fields.get(name) != text]
    added = _size([*new, *settlement.additions, str(settlement.options.get("data", ""))])
    if added > settings.max_addition_bytes:
        raise UnstorableValue(
            f"step {record.step} would add {added} bytes to the run; the limit for one round is "
            f"{settings.max_addition_bytes} (max_addition_bytes). Return less, or a reference to "
            "it (context.attach keeps a file and returns one)"
        )
    changed = {name: text for name, text in settlement.fields.items() if name.startswith(VALUE)}
    before = {} if settlement.renews else record.value_texts
    held = _size([*{**before, **changed}.values()])
    if held > settings.max_state_bytes:
        raise UnstorableValue(
            f"the named values would take {held} bytes; the limit is "
            f"{settings.max_state_bytes} (max_state_bytes). "
            "Store large things elsewhere and remember a reference"
        )


def _surely_fits(record: Record, settlement: Settlement, settings: Settings) -> bool:
    """Return whether a round certainly keeps all size limits.

    If False, the bytes must be measured. This counts characters, because counting bytes copies
    every text.
    """
    data = settlement.options.get("data", "")
    written = (
        sum(map(len, settlement.fields.values()))
        + sum(map(len, settlement.additions))
        + len(str(data))
    )
    held = written + sum(map(len, record.value_texts.values()))
    return (
        MOST_BYTES * written <= settings.max_addition_bytes
        and MOST_BYTES * held <= settings.max_state_bytes
    )


def _size(texts: list[str]) -> int:
    return len("".join(texts).encode("utf-8", "surrogateescape"))
