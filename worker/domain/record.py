"""The stored record of a run: the hash's fields as Python values, checked against their digest.

It is read in every round. Three helpers make it fast: a property that is computed once per object,
a search for fields by prefix, and a cache of the names of content fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from perdure.flows.core.files import FileReference
from perdure.flows.core.json_values import canonical, read
from perdure.worker.domain.execution_state import ExecutionState, is_plain
from perdure.worker.domain.stored_fields import MOST, FieldPrefix, cached_field
from perdure.worker.domain.tree_amounts import ADDED, TREE, Payer, from_millionths
from perdure.worker.errors import DamagedRun

#: Newest schema version that this code reads. Runs with a newer version are left to newer workers.
SCHEMA = "9"
#: Fields that a worker of schema version 1 would misread or refuse (everything added to CONTENT
#: later), each with the first version that reads it. A run gets the lowest version that reads all
#: its fields, so that older workers keep running the runs they understand.
SINCE: Mapping[str, str] = {
    "ending": "2",
    "wait": "3",
    "groups": "4",
    "parent": "4",
    "forgotten": "5",
    "generation": "5",
    "model": "6",
    "files": "7",
    "forked": "8",
    "key_salt": "9",
}
#: Field with the build of the flow whose code made the run's last commit. It is not content.
BUILD = "build"
#: Fields with the epoch and step, the time of the first failure of this step, and the number of
#: waits in a row: for a provider, and for code that fits.
FAILING, MISFIT = "failing", "misfit"
#: Prefix of the fields that hold named values. Each value has its own field, so that a commit
#: writes only the values that changed.
VALUE = "v:"
#: Field that is present if the run has used up its cycles; it holds their number. It is not part of
#: the content, so that workers of an earlier release compute an equal digest.
UNFINISHED = "unfinished"
#: Field with the number of the oldest turns that are gone.
FORGOTTEN = "forgotten"
#: Field that each retry of the run by a person changes. It is not part of the content.
RETRIED = "retried"
#: Field with the number of times that the run was renewed.
GENERATION = "generation"
#: Field with the cycles of the generations before this one. A budget of cycles counts them.
EARLIER_CYCLES = "earlier_cycles"
#: Field that is present if the run keeps only its newest events. It is not part of the content.
KEEP_EVENTS = "keep_events"
#: Field with the id of the run before this one in its thread.
FOLLOWS = "follows"
#: Field with the references to the files that were submitted with the run.
FILES = "files"
#: Field with the protocols to which the flow was exposed at the submission. Left out without any.
EXPOSED = "exposed"
#: Field with the names of limits and pauses that the submission chose or a person raised: a JSON
#: list of the submission's options and ``budgets.NAME``. The others come from the flow. Left out
#: if the run has no limits and no pauses. Earlier releases did not store it.
CHOSEN = "chosen"
#: Options of a submission that CHOSEN may name.
LIMITS_AND_PAUSES = ("interrupt_before", "interrupt_after", "max_rounds")
#: Field with the origin of a fork: the run and the step at which it was forked.
FORKED = "forked"
#: Field of a run whose id the caller chose: part of its idempotency keys. A deleted run with the
#: same id had another value.
KEY_SALT = "key_salt"
#: Field with the names of the run's groups of child runs, one per line.
GROUPS = "groups"
#: Field with the number of signals sent to the run. ALL_HEARD: field with that number as of the
#: last round whose controller had read all messages to the run.
ARRIVED, ALL_HEARD = "mailbox", "heard"
#: Field that is present if the run's last round is committed and a person reviews it before the
#: answer is published.
ENDING = "ending"
#: Fields that only Python writes, and that determine a round and its pauses for a person. The
#: digest covers these and the named values.
CONTENT = frozenset(
    {
        "flow",
        "goal",
        "inputs",
        "inputs_checked",
        "labels",
        "thread_id",
        "interrupt_before",
        "interrupt_after",
        "max_rounds",
        "round_timeout",
        "current_node",
        "cycles",
        "turns",
        "internal_data",
        "answer",
        "output",
        "budgets",
        "spent",
        "settled",
        "parent",
        "parent_nonce",
        "group",
        "place",
        "depth",
        "root",
        "payers",
        "forgotten",
        "generation",
        "earlier_cycles",
        "model",
        "files",
        "forked",
    }
)
_tree, _added = FieldPrefix(TREE), FieldPrefix(ADDED)


def awaited(fields: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the signals and groups of children that a run waits for.

    ``fields`` are the run's hash. The result has the keys ``signals`` and ``children``. Both lists
    are empty if the run is not parked.
    """
    lines = fields.get("wait_for", "").splitlines() if fields.get("phase") == "parked" else []
    names = [line.partition(" ")[0] for line in lines]
    return {
        "signals": [name for name in names if not name.startswith(":")],
        "children": [name[1:] for name in names if name.startswith(":")],
    }


def version_of(fields: Iterable[str]) -> str:
    """Return the lowest schema version that can read these fields."""
    return max((SINCE.get(name, "1") for name in fields), key=int, default="1")


def digest_of(fields: Mapping[str, str]) -> str:
    """Return the SHA-256 of the content in a run's hash (``content_of``).

    A worker compares the result with the stored digest before it runs a round, so that it never
    works on damaged data.
    """
    return digest_of_content(content_of(fields))


def digest_of_content(content: dict[str, str]) -> str:
    """Return the SHA-256 of ``content``, the result of ``content_of``.

    Undecodable bytes in its texts, as surrogate escapes, are hashed too: the data may be damaged.
    """
    return hashlib.sha256(canonical(content).encode("utf-8", "surrogateescape")).hexdigest()


def content_of(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the content of a run's hash: its content fields and named values."""
    return {name: fields[name] for name in _known_names(fields)[0]}


def _known_names(fields: Mapping[str, str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of all content, and of the named values in it.

    The result is cached, because most rounds of a run have the same fields. More than MOST names
    are not cached.
    """
    names = tuple(fields)
    return _names_among(names) if len(names) <= MOST else _names_among.__wrapped__(names)


@lru_cache(maxsize=MOST)
def _names_among(names: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    values = [name for name in names if name.startswith(VALUE)]
    return [*(name for name in names if name in CONTENT), *values], values


@dataclass(frozen=True)
class Record:
    """One run as the store holds it: the fields of its hash.

    A property raises DamagedRun on access if its field cannot be read as the property's type.
    """

    fields: Mapping[str, str]

    @cached_field
    def id(self) -> str:
        """The run's id. ``?`` if the hash has none."""
        return self.fields.get("id", "?")

    @cached_field
    def step(self) -> int:
        """The number of committed rounds of the run."""
        return self.count("step")

    @cached_field
    def epoch(self) -> int:
        """The run's epoch. Resume and retry increase it."""
        return self.count("epoch")

    @cached_field
    def cycles(self) -> int:
        """The number of cycles that the run has completed."""
        return self.count("cycles")

    @cached_field
    def turns(self) -> int:
        """The number of the run's turns, with those no longer stored."""
        return self.count("turns")

    @cached_field
    def forgotten(self) -> int:
        """The number of the oldest turns that are no longer stored."""
        return self.count(FORGOTTEN)

    @property
    def max_rounds(self) -> int | None:
        """The run's maximum number of cycles. None: no limit."""
        return self.count("max_rounds") if "max_rounds" in self.fields else None

    @cached_field
    def deadline(self) -> int | None:
        """The run's deadline in ms since 1970. None if it has no deadline."""
        return self.count("deadline") if "deadline" in self.fields else None

    @cached_field
    def inputs(self) -> dict[str, Any]:
        """The run's inputs by name."""
        return self.mapping("inputs")

    @cached_field
    def files(self) -> tuple[FileReference, ...]:
        """References to the files submitted with the run."""
        data = self.json(FILES, [])
        found = [FileReference.of(each) for each in data] if isinstance(data, list) else [None]
        if None in found:
            raise DamagedRun(f"run {self.id}: field {FILES!r}: expected references to files")
        return tuple(each for each in found if each is not None)

    @cached_field
    def content(self) -> dict[str, str]:
        """All fields of the run that its digest covers."""
        return content_of(self.fields)

    @cached_field
    def value_texts(self) -> dict[str, str]:
        """The JSON texts of the named values, by field name with prefix."""
        return {name: self.fields[name] for name in _known_names(self.fields)[1]}

    @cached_field
    def values(self) -> dict[str, Any]:
        """The named values of the run, by name without the prefix."""
        return {name.removeprefix(VALUE): self.json(name, None) for name in self.value_texts}

    @cached_field
    def budgets(self) -> dict[str, float]:
        """The run's limits by budget name, without added amounts."""
        return self.amounts("budgets")

    @cached_field
    def spent(self) -> dict[str, float]:
        """The run's own spending by budget, without lost attempts of this step."""
        return self.amounts("spent")

    @cached_field
    def tree(self) -> dict[str, float]:
        """The spending of the runs below this run, by budget name."""
        names = _tree.names(self.fields)
        return {name.removeprefix(TREE): from_millionths(self.fields[name]) for name in names}

    @cached_field
    def limits(self) -> dict[str, float]:
        """The run's limits by budget name, including added amounts."""
        limits = self.budgets
        for name in _added.names(self.fields):
            budget = name.removeprefix(ADDED)
            if budget in limits:
                limits = {**limits, budget: limits[budget] + from_millionths(self.fields[name])}
        return limits

    @property
    def chosen(self) -> list[str] | None:
        """The names of the chosen limits and pauses (CHOSEN), and of limits raised later.

        None if the names are unknown: an earlier release stored a run with limits or pauses, or the
        field is damaged. This raises no error, because only ``again`` needs the names.
        """
        if CHOSEN not in self.fields:
            has_some = any(name in self.fields for name in (*LIMITS_AND_PAUSES, "budgets"))
            return None if has_some else []
        try:
            names = json.loads(self.fields[CHOSEN])
        except (ValueError, RecursionError):
            return None
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            return None
        added = (f"budgets.{name.removeprefix(ADDED)}" for name in _added.names(self.fields))
        return list(dict.fromkeys((*names, *added)))

    @cached_field
    def payers(self) -> tuple[Payer, ...]:
        """The runs above that are charged for this run's spending. The parent is the first."""
        if "payers" not in self.fields:
            return ()
        return tuple(Payer.of(line) for line in self.fields["payers"].splitlines())

    @property
    def short_of(self) -> tuple[str, str] | None:
        """The budget that this run waits for: run id and name.

        It is a budget of a run above. None if the run does not wait for one.
        """
        parts = self.fields.get("short", "").split(" ")
        if self.fields.get("waiting_for") != "budget" or len(parts) != 5:
            return None
        return parts[3], parts[4]

    @cached_field
    def node(self) -> str:
        """The node that the run executes next.

        Raises:
            DamagedRun: Any field of the execution state is invalid, not only this one.
        """
        return self.fields["current_node"] if is_plain(self.fields) else self.state.current_node

    @cached_field
    def state(self) -> ExecutionState:
        """The run's execution state, validated."""
        try:
            return ExecutionState.from_fields(self.fields)
        except (ValueError, KeyError) as error:
            raise DamagedRun(
                f"run {self.id}: its stored execution state is invalid: {error}"
            ) from error

    def json(self, name: str, default: Any) -> Any:
        """Return a field's JSON value, or ``default`` if the field is absent.

        Raises:
            DamagedRun: The field is not JSON.
        """
        text = self.fields.get(name)
        if text is None:
            return default
        try:
            return read(text)
        except (ValueError, RecursionError) as error:
            raise DamagedRun(f"run {self.id}: field {name!r} is not JSON ({error})") from error

    def mapping(self, name: str) -> dict[str, Any]:
        """Return a field's JSON object. An absent field gives an empty dict.

        Raises:
            DamagedRun: The field is not a JSON object.
        """
        value = self.json(name, {})
        if not isinstance(value, dict):
            raise DamagedRun(
                f"run {self.id}: field {name!r}: expected an object, got {str(value)[:80]!r}"
            )
        return value

    def amounts(self, name: str) -> dict[str, float]:
        """Return a field's numbers by name. An absent field gives an empty dict.

        Raises:
            DamagedRun: The field is not a JSON object of numbers.
        """
        if name not in self.fields:
            return {}
        amount_by_name = self.mapping(name)
        if not all(
            isinstance(amount, int | float) and not isinstance(amount, bool)
            for amount in amount_by_name.values()
        ):
            raise DamagedRun(
                f"run {self.id}: field {name!r}: expected numbers, got {str(amount_by_name)[:80]!r}"
            )
        return amount_by_name

    def time(self, name: str) -> float | None:
        """Return a time field in seconds since 1970. None if it is absent or empty.

        Raises:
            DamagedRun: The field is not a whole number of ms.
        """
        return self.count(name) / 1000 if self.fields.get(name) else None

    def check(self) -> None:
        """Raise DamagedRun if the content does not match the digest.

        Raise it also if the schema version is missing, invalid or newer than this worker's.
        """
        schema = self.fields.get("schema")
        if schema != SCHEMA and not (
            schema and schema.isdecimal() and 0 < int(schema) < int(SCHEMA)
        ):
            raise DamagedRun(
                f"run {self.id}: written with schema {schema!r}, but this worker reads {SCHEMA!r}. "
                "Upgrade this worker, or retry the run on a newer one"
            )
        actual_digest = digest_of_content(self.content)
        if actual_digest != self.fields.get("digest"):
            raise DamagedRun(
                f"run {self.id}, step {self.fields.get('step')}: "
                "its content does not match its digest; it is quarantined. "
                "Restore the server's data, or submit the goal again"
            )

    def count(self, name: str) -> int:
        """Return a field's whole number, or 0 if the field is absent.

        Raises:
            DamagedRun: The field is not a whole number.
        """
        text = self.fields.get(name, "0")
        try:
            return int(text)
        except ValueError as error:
            raise DamagedRun(
                f"run {self.id}: field {name!r}: expected a whole number, got {text!r}"
            ) from error


def failing_since(fields: Mapping[str, str], field: str = FAILING) -> float | None:
    """Return the time from which the current step has been failing.

    No script deletes these fields, so an entry for another step or epoch is ignored.

    Args:
        fields: The run's hash.
        field: FAILING gives the time of the step's first failure, or first wait for its provider.
            MISFIT gives the time of its first wait for a worker whose code fits.

    Returns:
        The time in ms since 1970. None if the step has neither failed nor waited, or if the field
        is malformed.
    """
    match fields.get(field, "").split(" "):
        case [epoch, step, since, _] if (epoch, step) == (fields.get("epoch"), fields.get("step")):
            return float(since) if since.isdecimal() and len(since) < 15 else None
    return None
