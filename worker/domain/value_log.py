"""The log of a run's named values: it gives the values before any step.

The event of a round holds the values that the round changed (``values``), and a digest of all
values before the round (``before``). If the run has values and the round changes none, ``values``
is empty. The first event of a fork holds the fork's first values. Applying these events in order
gives the values before any step. Rounds of an earlier release recorded nothing. They are detected
because a digest does not match, or because an event lacks ``values``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any
from zlib import crc32

from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import is_name
from perdure.worker.domain.event import Event
from perdure.worker.domain.record import VALUE, Record

#: Name in a round's event for the names of values that were too large for it, separated by spaces.
LEFT_OUT = "left_out"


def is_recorded(name: str, own: Collection[str]) -> bool:
    """Return whether events record this value: it belongs to user code.

    Args:
        own: Names of the values that the flow's class writes. They are not recorded, and neither
            are names that begin with ``_``.
    """
    return not name.startswith("_") and name not in own


def changes_of(
    record: Record,
    changed: Mapping[str, str],
    own: Collection[str],
    most: int,
    renews: bool,
) -> str:
    """Return the commit's option ``record``: the values for the event.

    Args:
        record: The run as the round's claim read it.
        changed: The hash fields that the round writes.
        own: Names of the values that the flow's class writes.
        most: Maximum bytes of the values in one event. 0 for the last event of a run: the event
            gets no values.
        renews: Whether the round drops all values that are not in ``changed``.

    Returns:
        Words, separated by spaces. First a digest of all values before the round. Then the names of
        the values for the event. Then the names of the values that are too large for it, with ``!``
        in front (``!?`` for an invalid name). ``-`` takes the place of the digest if the event gets
        no value and needs no digest. The text is empty if the run has no values of user code and
        the round changes none.
    """
    before, names = record.fields, []
    for field, text in changed.items():  # in each round, so it is written for speed
        if field[:2] == VALUE and (renews or before.get(field) != text):
            name = field[2:]
            if name[:1] != "_" and name not in own:
                names.append(name)
    if not names and not renews:  # A renewal drops values, so its digest is needed.
        return "-" if _has_recorded(record, own) else ""
    size, kept, left_out = 0, [], []
    for name in names:
        text = changed[VALUE + name]
        length = len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
        length += len(name)
        if size + length > most or not _is_name(name):
            left_out.append("!" + (name if _is_name(name) else "?"))
        else:
            size += length
            kept.append(name)
    # A digest of large values takes long.
    if not kept and not renews and most and _has_recorded(record, own):
        return " ".join(["-", *left_out])
    texts = {
        name.removeprefix(VALUE): text
        for name, text in record.value_texts.items()
        if is_recorded(name.removeprefix(VALUE), own)
    }
    return " ".join([_digest(texts), *kept, *left_out])


def _has_recorded(record: Record, own: Collection[str]) -> bool:
    return any(is_recorded(name.removeprefix(VALUE), own) for name in record.value_texts)


def first_values(values: Mapping[str, Any]) -> str | None:
    """Return named values as JSON for the first event of a fork. None if ``values`` is empty."""
    return canonical(dict(values)) if values else None


def values_before(
    events: Iterable[Event], step: int, now: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return user code's named values before a step.

    Args:
        events: All stored events of the run, in order.
        step: A step whose round is committed.
        now: The run's values of user code after the last of these events.

    Returns:
        The values by name. None if the events do not prove them: a round of an earlier release
        changed them, a value was too large, the flow records none, or events are gone.
    """
    values: dict[str, Any] = {}
    last: dict[str, Any] = {}
    is_sure = False  # whether each round up to here has recorded its changes
    is_there = False  # whether the event of the step remains, and so all after it
    for event in events:
        recorded = event.data.get("values")
        if event.type == "submitted":
            values, is_sure = dict(recorded or {}), True
        elif event.type == "renewed":
            if event.step >= step:
                return None  # A round of an earlier release has dropped values, without a digest.
            values = last
        elif event.type == "committed":
            is_silent = bool(values) and recorded is None
            if event.step >= step:
                is_there |= event.step == step
                if not is_there:
                    return None
                if "before" in event.data:
                    return values if _digest_of(values) == event.data["before"] else None
                if is_silent or LEFT_OUT in event.data:  # There were values, and no digest of them.
                    return values if is_sure and values else None
                continue
            if "before" in event.data:
                is_sure = _digest_of(values) == event.data["before"]
            elif is_silent:
                is_sure = False
            last = dict(recorded or {})
            values = {**values, **last}
            for name in event.data.get(LEFT_OUT, "").split():
                values.pop(name, None)
                is_sure = False
    return values if is_there and values == now else None


def _digest_of(values: Mapping[str, Any]) -> str:
    return _digest({name: canonical(value) for name, value in values.items()})


def _digest(texts: Mapping[str, str]) -> str:
    """Return a short digest of named values. ``texts`` has their JSON texts by name.

    It is a checksum (CRC-32), because each round that records a value computes it. One in four
    billion other values has the same checksum by chance, and a deliberate collision gains nothing.
    """
    value = 0
    for name in sorted(texts):
        value = crc32(texts[name].encode("utf-8", "surrogateescape"), crc32(name.encode(), value))
    return f"{value:08x}"


#: A flow has few names of values.
_is_name = lru_cache(maxsize=1000)(is_name)
