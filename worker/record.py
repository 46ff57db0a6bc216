"""What the store holds of a run, read: the hash's fields as Python values, checked against their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flows.outcomes import Command, Turn
from flows.values import canonical, read
from worker.errors import DamagedRun
from worker.execution_state import ExecutionState, is_plain
from worker.kept import kept
from worker.prefix import Prefix

#: Newest version of what is stored that this code reads; a worker leaves runs of a newer one to newer workers.
SCHEMA = "2"
#: Fields that a worker of version 1 would misread or refuse (all of CONTENT that came later), each with the first version that reads it.
#: A run has the lowest version that reads all its fields, so that older workers go on playing the runs that they understand.
SINCE: Mapping[str, str] = {"ending": "2"}
#: Named values stand in the hash under this prefix, one field each, so that a commit writes only those that changed.
VALUE = "v:"
_values = Prefix(VALUE)
#: Where it is, the run has used up its cycles: how many they were. No content, so that workers of an earlier release read the same digest.
UNFINISHED = "unfinished"
#: Where it is, the round that ends the run is committed, and a person looks before the answer goes out.
ENDING = "ending"
#: The fields that only Python writes and that decide what a round does, and after which of them a person is asked; the digest
#: covers these and the values.
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
    }
)


def version_of(fields: Iterable[str]) -> str:
    """Return the lowest version that reads a run with these fields."""
    return max((SINCE.get(name, "1") for name in fields), key=int, default="1")


def digest_of(fields: Mapping[str, str]) -> str:
    """SHA-256 over the content fields and the named values, so that a damaged run is found before it is played."""
    return digest_of_content(content_of(fields))


def digest_of_content(content: dict[str, str]) -> str:
    """The same, where nothing but content is there. Its texts may hold undecodable bytes, as surrogate escapes: damage is hashed, too."""
    return hashlib.sha256(canonical(content).encode("utf-8", "surrogateescape")).hexdigest()


def content_of(fields: Mapping[str, str]) -> dict[str, str]:
    """The content fields and the named values."""
    return _covered(fields) | {name: fields[name] for name in _values.names(fields)}


def _covered(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: fields[name] for name in CONTENT if name in fields}


@dataclass(frozen=True)
class Record:
    """One run as the store holds it.

    Raises (on access of a property): DamagedRun, where a field does not read as what it should be.
    """

    fields: Mapping[str, str]

    @kept
    def id(self) -> str:
        return self.fields.get("id", "?")

    @kept
    def step(self) -> int:
        return self.count("step")

    @kept
    def epoch(self) -> int:
        return self.count("epoch")

    @kept
    def cycles(self) -> int:
        return self.count("cycles")

    @kept
    def turns(self) -> int:
        return self.count("turns")

    @property
    def max_rounds(self) -> int | None:
        return self.count("max_rounds") if "max_rounds" in self.fields else None

    @kept
    def deadline(self) -> int | None:
        """When the run must have ended, in ms since 1970."""
        return self.count("deadline") if "deadline" in self.fields else None

    @kept
    def inputs(self) -> dict[str, Any]:
        return self.mapping("inputs")

    @kept
    def content(self) -> dict[str, str]:
        """What the digest covers."""
        return _covered(self.fields) | self.value_texts

    @kept
    def value_texts(self) -> dict[str, str]:
        """The named values as they stand, with their prefix."""
        return {name: self.fields[name] for name in _values.names(self.fields)}

    @kept
    def values(self) -> dict[str, Any]:
        return {name.removeprefix(VALUE): self.json(name, None) for name in self.value_texts}

    @kept
    def budgets(self) -> dict[str, float]:
        """What the run may spend, by name."""
        return self.amounts("budgets")

    @kept
    def spent(self) -> dict[str, float]:
        """What it has spent, by name, without attempts whose worker was lost in the step at hand."""
        return self.amounts("spent")

    @kept
    def node(self) -> str:
        """The node that runs next; what is damaged of the state is found here as well."""
        return self.fields["current_node"] if is_plain(self.fields) else self.state.current_node

    @kept
    def state(self) -> ExecutionState:
        try:
            return ExecutionState.from_fields(self.fields)
        except (ValueError, KeyError) as error:
            raise DamagedRun(f"run {self.id}: its execution state does not read back: {error}") from error

    def json(self, name: str, default: Any) -> Any:
        """The JSON value in field ``name``, or ``default`` where the field is absent."""
        text = self.fields.get(name)
        if text is None:
            return default
        try:
            return read(text)
        except (ValueError, RecursionError) as error:
            raise DamagedRun(f"run {self.id}: field {name!r} is not JSON ({error})") from error

    def mapping(self, name: str) -> dict[str, Any]:
        """The JSON object in field ``name``, an empty one where the field is absent."""
        found = self.json(name, {})
        if not isinstance(found, dict):
            raise DamagedRun(f"run {self.id}: field {name!r} should be an object, it is {str(found)[:80]!r}")
        return found

    def amounts(self, name: str) -> dict[str, float]:
        """The numbers by name in field ``name``, none where the field is absent."""
        if name not in self.fields:
            return {}
        found = self.mapping(name)
        if not all(isinstance(amount, int | float) and not isinstance(amount, bool) for amount in found.values()):
            raise DamagedRun(f"run {self.id}: field {name!r} should hold numbers, it is {str(found)[:80]!r}")
        return found

    def time(self, name: str) -> float | None:
        """A time field in seconds since 1970, or None."""
        return self.count(name) / 1000 if self.fields.get(name) else None

    def check(self) -> None:
        """Raise DamagedRun unless the content is what was stored."""
        schema = self.fields.get("schema")
        if schema != SCHEMA and not (schema and schema.isdecimal() and 0 < int(schema) < int(SCHEMA)):
            raise DamagedRun(
                f"run {self.id}: written with schema {schema!r}, this worker knows {SCHEMA!r}; upgrade it, or retry the run there"
            )
        found = digest_of_content(self.content)
        if found != self.fields.get("digest"):
            raise DamagedRun(
                f"run {self.id}, step {self.fields.get('step')}: its content does not match its digest; it is quarantined. "
                "Restore the server's data, or submit the goal again"
            )

    def count(self, name: str) -> int:
        """The whole number in field ``name``, 0 where the field is absent."""
        text = self.fields.get(name, "0")
        try:
            return int(text)
        except ValueError as error:
            raise DamagedRun(f"run {self.id}: field {name!r} should be a whole number, it is {text!r}") from error


def failing_since(fields: Mapping[str, str]) -> float | None:
    """When the step at hand failed, or waited for its provider, for the first time (ms); None where it has not.

    What the field says of another step or epoch means nothing; nothing clears it.
    """
    match fields.get("failing", "").split(" "):
        case [epoch, step, since, _] if (epoch, step) == (fields.get("epoch"), fields.get("step")):
            return float(since) if since.isdecimal() and len(since) < 15 else None
    return None


def pack_turn(turn: Turn, run_id: str) -> str:
    """One entry of the memory list: a short digest of it and of whose it is, a space, the turn's JSON."""
    command = turn.command
    text = canonical({"command": command and _packed(command), "observation": turn.observation})
    return f"{_short(run_id, text)} {text}"


def _packed(command: Command) -> dict[str, Any]:
    data = {"name": command.name, "args": dict(command.args), "extras": dict(command.extras)}
    return {**data, "call": command.call, "part": command.part} if command.call or command.part else data


def unpack_turns(run_id: str, entries: Iterable[str]) -> list[Turn]:
    """The turns of memory entries; raises DamagedRun on the first that is not what was appended."""
    turns = []
    for entry in entries:
        digest, _, text = entry.partition(" ")
        if digest != _short(run_id, text):
            raise DamagedRun(f"run {run_id}: an entry of its history does not match its digest, or is another run's; it is quarantined")
        try:
            data = read(text)
            command = data["command"]
            turns.append(Turn(command and Command(**command), data["observation"]))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise DamagedRun(f"run {run_id}: an entry of its history is no turn ({type(error).__name__}); it is quarantined") from error
    return turns


def _short(run_id: str, text: str) -> str:
    return hashlib.sha256(f"{run_id} {text}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
