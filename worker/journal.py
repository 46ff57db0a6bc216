"""The engine's journal: what a round writes down before its commit, kept in the run's hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from flows.errors import FatalError, RoundStopped, UnstorableValue
from flows.journal import Journal
from worker.errors import DamagedRun
from worker.prefix import Prefix
from worker.store import Granted, NotReplicated, Store, StoreUnavailable

#: Results recorded in a step stand in the hash under this prefix, one field each.
RESULT = "o:"
#: Digits that no time in ms has.
MOST_DIGITS = 15
_results = Prefix(RESULT)


class StoreJournal(Journal):
    """The journal of the round that ``claim`` granted.

    Args:
        most_bytes: of one recorded result (the setting max_addition_bytes).
        broken: told of what makes the round's result worthless: a command may take it for a failure of its own, and go on.

    Raises:
        DamagedRun: the intents or a recorded result are not what was recorded, or none of this step.
    """

    def __init__(self, store: Store, claim: Granted, most_bytes: int, broken: Callable[[Exception], None] = lambda error: None) -> None:
        fields = claim.fields
        self._broken = broken
        self._store = store
        self._claim = claim
        self._most_bytes = most_bytes
        self._run_id, self._epoch, self._step = fields["id"], int(fields["epoch"]), int(fields["step"])
        self._where = f"run {self._run_id}, step {self._step}"
        super().__init__(self._intents(fields), self._results(fields))
        self._kept = fields.get("intent", "")
        self.begun = _begun(fields)

    @property
    def text(self) -> str:
        """See Journal; a digest stands in front, in a line of its own."""
        lines = super().text
        return f"{self._digest('intents', lines)}\n{lines}" if lines else ""

    def write(self, text: str) -> None:
        """See Journal. Asks the server, also where it was asked before: only whoever holds the round may begin.

        Raises:
            RoundStopped, DamagedRun, StoreUnavailable: the command must not be carried out.
        """
        claim = self._claim
        with self._telling():
            word = self._store.intend(self._run_id, epoch=self._epoch, step=self._step, token=claim.token, claim=claim.claim, key=text)
        if word != "ok":
            raise self._error(word, f"the command of key {self._lines[-1].partition(' ')[0]} was not begun")

    def record(self, name: str, text: str) -> str:
        """See Journal.

        Raises:
            RoundStopped, DamagedRun, StoreUnavailable: it is not recorded.
            UnstorableValue: it is too long. FatalError: the step has recorded as many as are kept.
        """
        size = len(text.encode())
        if size > self._most_bytes:
            raise UnstorableValue(
                f"{self._where}: the result recorded as {name!r} takes {size} bytes; at most {self._most_bytes} are taken "
                "(max_addition_bytes). Record less, or a reference to it"
            )
        nonce = self._claim.fields.get("nonce", "")
        packed = f"{self._digest(name, text)} {text}"
        with self._telling():
            word, detail = self._store.record_once(self._run_id, nonce=nonce, step=self._step, name=name, value=packed)
        if word == "full":
            raise FatalError(f"{self._where}: {name!r} is not recorded, for the step has recorded 64 results; record one of many parts")
        if word != "ok":
            raise self._error(word, f"the result {name!r} was not recorded", detail)
        return super().record(name, self._unpacked(name, detail))

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except (StoreUnavailable, NotReplicated) as error:
            self._broken(error)
            raise

    def _intents(self, fields: Mapping[str, str]) -> str:
        if "intent" not in fields and "intent_token" not in fields:
            return ""
        digest, _, lines = fields.get("intent", "").partition("\n")
        if digest != self._digest("intents", lines):
            raise DamagedRun(f"{self._where}: the intents {lines[:200]!r} do not match their digest; the run is quarantined")
        return lines

    def _results(self, fields: Mapping[str, str]) -> dict[str, str]:
        names = [field.removeprefix(RESULT) for field in _results.names(fields)]
        if not names and "once" not in fields:
            return {}
        listed = fields.get("once", "").split("\n") if "once" in fields else []
        if sorted(names) != sorted(listed):
            raise DamagedRun(f"{self._where}: the recorded results {sorted(names)} are not those that were listed, {sorted(listed)}")
        return {name: self._unpacked(name, fields[RESULT + name]) for name in names}

    def _unpacked(self, name: str, packed: str) -> str:
        digest, _, text = packed.partition(" ")
        if digest != self._digest(name, text):
            raise DamagedRun(f"{self._where}: the result recorded as {name!r} does not match its digest; the run is quarantined")
        return text

    def _digest(self, name: str, text: str) -> str:
        return hashlib.sha256(f"{self._run_id} {self._step} {name} {text}".encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def _error(self, word: str, what: str, detail: str = "") -> Exception:
        told = f"{self._where}: {what}: the server answered {word} {detail}".rstrip()
        if word == "damaged":
            damaged = DamagedRun(f"{told}; look at it with holdfast show {self._run_id}")
            self._broken(damaged)
            return damaged
        return RoundStopped(f"{told}: the round belongs to another worker, or the run has left it, was stopped or deleted")


def _begun(fields: Mapping[str, str]) -> dict[str, str]:
    """When and by whom the last intent was written; a worker of an earlier version did not say."""
    at = fields.get("intent_at", "")
    told = {"began": datetime.fromtimestamp(int(at) / 1000, UTC).isoformat()} if at.isdecimal() and len(at) < MOST_DIGITS else {}
    return {**told, **({"worker": fields["intent_by"]} if fields.get("intent_by") else {})}
