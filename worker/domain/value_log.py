"""The log of a run's named values: what each round changed, so that each can be decided anew later.

The event of a round has the values that it changed (``values``), and a digest of all values before
it (``before``). If the run has values and the round changes none, the event says so: ``values`` is
empty. The first event of a fork has the values that it begins with. The fold of these is what the
run knew before any of its steps. Rounds of an earlier release have recorded nothing: they are
noticed since the digests do not fit, or since an event lacks ``values``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import is_name
from perdure.worker.domain.event import Event
from perdure.worker.domain.record import VALUE, Record

#: Name in a round's event for the names of values that were too large for it.
LEFT_OUT = "left_out"
#: Bytes of the digest of all values before a round.
DIGEST_BYTES = 4


def is_recorded(name: str, own: Collection[str]) -> bool:
    """Return whether a named value is one of user code, and not of the flow itself.

    Args:
        own: the names of the values that the flow writes itself.
    """
    return not name.startswith("_") and name not in own


def changes_of(
    record: Record,
    changed: Mapping[str, str],
    own: Collection[str],
    most: int,
    renews: bool,
) -> tuple[str, list[str]]:
    """Return which of the values that a round writes belong into its event.

    Args:
        changed: the fields that the round writes.
        own: the names of the values that the flow writes itself.
        most: bytes that the values of one event may have.
        renews: whether only these values are left behind the round.

    Returns:
        The option ``record`` of the commit: the digest of all values before the round, and the
            names. Empty if no value of user code has changed and the run is not renewed. Also the
            names that are left out, as the values are too large.
    """
    before, names = record.fields, []
    for field, text in changed.items():  # in each round, so it is written for speed
        if field[:2] == VALUE and (renews or before.get(field) != text):
            name = field[2:]
            if name[:1] != "_" and name not in own:
                names.append(name)
    if not names and not renews:  # A renewal drops values, so its digest is needed.
        return "", []
    size, kept, left_out = 0, [], []
    for name in names:
        length = len(name) + len(changed[VALUE + name].encode("utf-8", "surrogateescape"))
        if size + length > most or not is_name(name):
            left_out.append(name)
        else:
            size += length
            kept.append(name)
    texts = {
        name.removeprefix(VALUE): text
        for name, text in record.value_texts.items()
        if is_recorded(name.removeprefix(VALUE), own)
    }
    return " ".join([_digest(texts), *kept]), left_out


def has_recorded(record: Record, own: Collection[str]) -> bool:
    """Return whether a run has named values of user code."""
    return any(is_recorded(name.removeprefix(VALUE), own) for name in record.value_texts)


def first_values(values: Mapping[str, Any]) -> str | None:
    """Return the values with which a run begins, as its first event has them, or None."""
    return canonical(dict(values)) if values else None


def values_before(
    events: Iterable[Event], step: int, now: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the named values of user code before a step of a run.

    Args:
        events: all events of the run that are left, in their order.
        step: the step, whose round is committed.
        now: the run's values as of these events.

    Returns:
        None if they are not recorded: rounds of an earlier release have changed them, a value was
            too large, the flow records none, or events are gone.
    """
    values: dict[str, Any] = {}
    last: dict[str, Any] = {}
    is_sure = False  # whether each round up to here has recorded what it changed
    is_there = False  # whether the event of the step is left, and so all behind it
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
                if is_silent:
                    return values if is_sure else None
                continue
            if "before" in event.data:
                is_sure = _digest_of(values) == event.data["before"]
            elif is_silent:
                is_sure = False
            last = dict(recorded or {})
            values = {**values, **last}
            for name in event.data.get(LEFT_OUT, ()):
                values.pop(name, None)
                is_sure = False
    return values if is_there and values == now else None


def _digest_of(values: Mapping[str, Any]) -> str:
    return _digest({name: canonical(value) for name, value in values.items()})


def _digest(texts: Mapping[str, str]) -> str:
    """Return a short digest of named values, each with its JSON."""
    lines = "\n".join(f"{name} {texts[name]}" for name in sorted(texts))
    raw = lines.encode("utf-8", "surrogateescape")
    return hashlib.blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()
