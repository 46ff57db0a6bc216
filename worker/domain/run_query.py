"""RunQuery: the meaning of a query line such as ``status:errored label:team=a submitted:<1d``.

A RunQuery decides whether the hash fields of a run match. It also returns the statuses and times
that matching runs can have, so that a list reads only those parts of the indexes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.flows.core.durations import seconds_of
from perdure.flows.core.names import suggest
from perdure.worker.domain.error_groups import kind_of
from perdure.worker.domain.query_line import QueryTerm, terms_of
from perdure.worker.domain.record import FORKED, Record
from perdure.worker.domain.run import RunStatus, status_of
from perdure.worker.domain.tree_amounts import MILLION, TREE
from perdure.worker.errors import InvalidInput
from perdure.worker.ids import RUN_ID

#: The keys of a query line, each with its meaning. Completion and help show them.
KEYS: Mapping[str, str] = {
    "status": "queued, running, interrupted, stopped, completed or errored",
    "flow": "name of the flow",
    "label": "name=value, or the name alone",
    "input": "name=value, or the name alone",
    "by": "who submitted it",
    "goal": "words of the goal",
    "error": "words of the error",
    "node": "name of the node that the run is at",
    "kind": "class of the error, as perdure list --group shows it",
    "id": "beginning of the run's id",
    "thread": "name of the thread",
    "forked": "id of the run that it was forked from",
    "submitted": "<1d: within the last day, >1d: before that, or a date",
    "ended": "<1d: within the last day, >1d: before that, or a date",
    "duration": ">10m: longer than ten minutes",
    "cost": ">0.5: more than 50 cents",
    "children": "yes: child runs too",
    "sort": "newest, oldest, duration or cost",
}
SORTS = ("newest", "oldest", "duration", "cost")
#: Orders that no index has. Only runs that were looked at can be sorted by them.
SORTED_AFTER_READING = ("duration", "cost")
#: Fields of a run's hash that a condition reads, by its key.
_READS: Mapping[str, tuple[str, ...]] = {
    "": ("goal",),
    "status": ("phase", "started_at"),
    "flow": ("flow",),
    "label": ("labels",),
    "input": ("inputs",),
    "by": ("submitted_by",),
    "goal": ("goal",),
    "error": ("error",),
    "node": ("current_node",),
    "kind": ("phase", "started_at", "error"),
    "id": (),
    "thread": ("thread_id",),
    "forked": (FORKED,),
    "submitted": ("created_at",),
    "ended": ("phase", "ended_at", "stopped_at"),
    "duration": ("created_at", "ended_at", "stopped_at", "phase", "started_at"),
    "cost": ("spent", f"{TREE}money"),
}
#: Keys of which a run has one value. Several terms of such a key name alternatives.
_ALTERNATIVES = ("status", "flow", "node", "kind", "by", "id", "thread", "forked")
_COMPARED = ("submitted", "ended", "duration", "cost")
_ENDED = frozenset(status for status in RunStatus if status.ended)
#: The indexes that are ordered by the time at which a run ended.
BY_END = ("completed", "errored")

#: Maximum number of texts of a query that are tried as ids of runs.
MOST_NAMED = 5

_Condition = Callable[[Mapping[str, str], float], bool]


@dataclass(frozen=True)
class RunQuery:
    """A parsed query line.

    Attributes:
        terms: The terms that choose runs, without ``sort`` and ``children``.
        statuses: The statuses that matching runs can have.
        sort: The order of the list, one of SORTS.
        children: Whether the list includes child runs. ``fits`` does not check this.
    """

    terms: tuple[QueryTerm, ...] = ()
    statuses: frozenset[RunStatus] = frozenset(RunStatus)
    sort: str = "newest"
    children: bool = False
    _conditions: tuple[_Condition, ...] = ()

    @classmethod
    def of(cls, line: str) -> RunQuery:
        """Parse a query line. An empty line matches all runs.

        Raises:
            InvalidInput: The line has a syntax error, a key is unknown, or a value does not fit its
                key.
        """
        settings = {"sort": "newest", "children": "no"}
        allowed = {"sort": SORTS, "children": ("yes", "no")}
        chosen: list[QueryTerm] = []
        for term in terms_of(line):
            if term.key not in allowed:
                chosen.append(term)
                continue
            if term.is_not or term.text not in allowed[term.key]:
                raise InvalidInput(
                    f"query: expected {term.key}: with one of {', '.join(allowed[term.key])}, "
                    f"got {str(term)[:80]}"
                )
            settings[term.key] = term.text
        terms = tuple(chosen)
        return cls(
            terms,
            _statuses_of(terms),
            settings["sort"],
            settings["children"] == "yes",
            tuple(_conditions_of(terms)),
        )

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the hash fields that are needed to match and sort runs."""
        keys = [term.key for term in self.terms]
        if self.sort in SORTED_AFTER_READING:
            keys.append(self.sort)
        return tuple(dict.fromkeys(name for key in keys for name in _READS[key]))

    @property
    def submitter(self) -> str | None:
        """The only submitter that the query names with ``by``. None if it names none or several."""
        terms = [term for term in self.terms if term.key == "by" and not term.is_not]
        names = {name for term in terms for name in term.text.split(",")}
        return names.pop() if len(names) == 1 else None

    @property
    def id_prefixes(self) -> tuple[str, ...]:
        """The beginnings of ids that the query names with ``id``. Empty: the query names none.

        The id of a matching run has one of them.
        """
        return tuple(term.text for term in self.terms if term.key == "id" and not term.is_not)

    @property
    def named_ids(self) -> tuple[str, ...]:
        """Words of the query that may be a whole run id.

        There are at most MOST_NAMED. The list looks these runs up by id, so it finds them however
        old they are.
        """
        texts = [term.text for term in self.terms if term.key in ("", "id") and not term.is_not]
        return tuple(dict.fromkeys(text for text in texts if RUN_ID.fullmatch(text)))[:MOST_NAMED]

    def fits(self, fields: Mapping[str, str], now: float) -> bool:
        """Return whether a run's hash fields match the query.

        Args:
            now: The present time (ms), from which ages are counted.

        Raises:
            DamagedRun: A field of the run cannot be read.
        """
        return all(condition(fields, now) for condition in self._conditions)

    def times(self, index: str, now: float) -> tuple[float, float]:
        """Return the lowest and the highest score (ms) of matching runs in an index, inclusive.

        The score of a run is the time of its end in the indexes ``completed`` and ``errored``, else
        the time of its submission. A bound that the query does not set is infinite.

        Args:
            index: The name of the index. It may have a suffix after a colon.
            now: The present time (ms), from which ages are counted.
        """
        ended = index.partition(":")[0] in BY_END
        low, high = -math.inf, math.inf
        for term in self.terms:
            if term.key not in ("submitted", "ended") or term.is_not:
                continue
            after, before = _span(term, now)
            # No run ends before its submission, so the bound of one is often that of the other.
            if ended or term.key == "submitted":
                low = max(low, after)
            if not ended or term.key == "ended":
                high = min(high, before)
        return low, high


def duration_of(fields: Mapping[str, str], now: float) -> float:
    """Return a run's duration in ms. A run that has not ended lasts until ``now`` (ms)."""
    end = _end_of(fields)
    return (now if end is None else end) - Record(fields).count("created_at")


def cost_of(fields: Mapping[str, str]) -> float:
    """Return the cost in dollars of a run and the runs below."""
    record = Record(fields)
    try:
        return math.fsum((record.spent.get("money", 0.0), record.count(f"{TREE}money") / MILLION))
    except OverflowError:  # of a run that was changed by hand
        return math.inf


def _end_of(fields: Mapping[str, str]) -> float | None:
    """Return the time when a run ended or stopped (ms). None if it has not."""
    if not status_of(fields).ended:
        return None
    record = Record(fields)
    return record.count("stopped_at" if "ended_at" not in fields else "ended_at")


def _statuses_of(terms: tuple[QueryTerm, ...]) -> frozenset[RunStatus]:
    statuses = frozenset(RunStatus)
    named: frozenset[RunStatus] = frozenset()
    for term in terms:
        if term.key == "ended" and not term.is_not:
            statuses &= _ENDED
        if term.key == "status":
            values = {each.value: each for each in RunStatus}
            wrong = [text for text in term.text.split(",") if text not in values]
            if wrong:
                raise InvalidInput(
                    f"query: no status {wrong[0][:40]!r}; {suggest(wrong[0], values)}"
                )
            these = frozenset(values[text] for text in term.text.split(","))
            if term.is_not:
                statuses -= these
            else:
                named |= these
    return statuses & named if named else statuses


def _conditions_of(terms: tuple[QueryTerm, ...]) -> list[_Condition]:
    conditions: list[_Condition] = []
    alternatives: dict[str, list[_Condition]] = {}
    for term in terms:
        holds = _condition_of(term)
        if term.is_not:
            conditions.append(_negated(holds))
        elif term.key in _ALTERNATIVES:
            alternatives.setdefault(term.key, []).append(holds)
        else:
            conditions.append(holds)
    return [*map(_any_of, alternatives.values()), *conditions]


def _negated(holds: _Condition) -> _Condition:
    return lambda fields, now: not holds(fields, now)


def _any_of(conditions: list[_Condition]) -> _Condition:
    if len(conditions) == 1:
        return conditions[0]
    return lambda fields, now: any(holds(fields, now) for holds in conditions)


def _condition_of(term: QueryTerm) -> _Condition:
    key, text = term.key, term.text
    if key and key not in KEYS:
        raise InvalidInput(
            f"query: no key {key[:40]!r}; {suggest(key, KEYS)}. "
            f'To search for these words, put them in quotes: "{key}:{text[:40]}"'
        )
    if key in _COMPARED:
        return _compared(term)
    folded = text.casefold()
    if key == "status":
        statuses = {RunStatus(each) for each in text.split(",")}
        return lambda fields, _: status_of(fields) in statuses
    if key == "label":
        # A name may have "=" in it too.
        return lambda fields, _: any(
            text in (name, f"{name}={value}")
            for name, value in Record(fields).mapping("labels").items()
        )
    if key == "node":
        return lambda fields, _: fields.get("current_node") == text
    if key == "kind":
        return lambda fields, _: (
            status_of(fields) is RunStatus.ERRORED and kind_of(fields.get("error", "")) == text
        )
    if key == "input":
        name, equals, value = text.partition("=")
        if equals:
            return lambda fields, _: _is_input(Record(fields).inputs, name, value)
        return lambda fields, _: name in Record(fields).inputs
    if key == "id":
        return lambda fields, _: fields.get("id", "").startswith(text)
    if key in ("goal", "error"):
        return lambda fields, _: folded in fields.get(key, "").casefold()
    if not key:
        return lambda fields, _: (
            folded in fields.get("goal", "").casefold() or fields.get("id", "").startswith(text)
        )
    if key == "forked":
        return lambda fields, _: Record(fields).mapping(FORKED).get("run") == text
    field = {"flow": "flow", "by": "submitted_by", "thread": "thread_id"}[key]
    names = set(text.split(","))
    return lambda fields, _: fields.get(field) in names


def _is_input(inputs: Mapping[str, Any], name: str, value: str) -> bool:
    """Return whether the input ``name`` equals ``value``, the text in a query.

    An input that is a string is compared with the text itself. Any other input is compared with the
    JSON value that the text stands for. False if there is no such input, or the text is no JSON.
    """
    if name not in inputs:
        return False
    stored = inputs[name]
    if isinstance(stored, str):
        return stored == value
    try:
        wanted = json.loads(value)
    except (ValueError, RecursionError):
        return False
    # In Python, True equals 1. In JSON it does not.
    return isinstance(stored, bool) is isinstance(wanted, bool) and bool(stored == wanted)


def _compared(term: QueryTerm) -> _Condition:
    _bounds_of(term)  # An invalid value raises here, not at the first run.
    key = term.key
    if key in ("duration", "cost"):
        low, high = _bounds_of(term)

        def fits_amount(fields: Mapping[str, str], now: float) -> bool:
            amount = cost_of(fields) if key == "cost" else duration_of(fields, now) / 1000
            return low < amount < high

        return fits_amount

    def fits_time(fields: Mapping[str, str], now: float) -> bool:
        after, before = _span(term, now)
        at = _end_of(fields) if key == "ended" else Record(fields).count("created_at")
        return at is not None and after <= at <= before

    return fits_time


def _span(term: QueryTerm, now: float) -> tuple[float, float]:
    """Return the first and the last time (ms) that a term allows.

    The term's key is ``submitted`` or ``ended``. An age counts from ``now`` (ms). Without a bound,
    the time is infinite.
    """
    sign, value = term.text[:1], term.text[1:]
    age = _age(value)
    if age is not None:  # An age of less than a day is a time after that of a day ago.
        at = now - age * 1000
        return (at, math.inf) if sign == "<" else (-math.inf, at)
    return _bounds_of(term)


def _bounds_of(term: QueryTerm) -> tuple[float, float]:
    """Return the lower and the upper bound that a term sets.

    They are seconds for ``duration``, dollars for ``cost``, and ms since 1970 for a date. For an
    age (``<1d``) both are infinite, because an age depends on the present time: see ``_span``.

    Raises:
        InvalidInput: The text of the term does not fit its key.
    """
    sign, value = (term.text[0], term.text[1:]) if term.text[0] in "<>" else ("", term.text)
    if term.key in ("submitted", "ended"):
        if sign and _age(value) is not None:
            return -math.inf, math.inf
        day = _day(value)
        if day is not None:
            begin, end = day
            return {"": (begin, end - 1), "<": (-math.inf, begin), ">": (begin, math.inf)}[sign]
        at = _moment(value) if sign else None
        if at is not None:
            return (-math.inf, at) if sign == "<" else (at, math.inf)
        expected = "<1d, >1d, a date like 2026-11-22, or >2026-11-22T08:00+01:00"
    elif term.key == "duration":
        amount = _age(value)
        if sign and amount is not None:
            return (-math.inf, amount) if sign == "<" else (amount, math.inf)
        expected = ">10m or <1h30m"
    else:
        amount = _number(value)
        if sign and amount is not None:
            return (-math.inf, amount) if sign == "<" else (amount, math.inf)
        expected = "dollars, such as >0.5"
    raise InvalidInput(f"query: {term.key}: expected {expected}; got {term.text[:40]!r}")


def _age(text: str) -> float | None:
    try:
        return seconds_of(text)
    except ValueError:
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _day(text: str) -> tuple[float, float] | None:
    """Return the times (ms) at which the UTC day in a text begins, and the next day begins.

    None if the text is no date.
    """
    try:
        begin = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
        end = begin + timedelta(days=1)
    except (ValueError, OverflowError):
        return None
    return begin.timestamp() * 1000, end.timestamp() * 1000


def _moment(text: str) -> float | None:
    """Return the time (ms) of an ISO 8601 text. None if the text is no time.

    A text without a time zone is in UTC.
    """
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, OverflowError):
        return None
