"""The journal: the records that a round writes to the run's hash before its commit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from perdure.flows.core.errors import FatalError, RoundStopped, UnstorableValue
from perdure.flows.core.files import MOST_TOGETHER
from perdure.flows.core.round_journal import Journal
from perdure.worker.domain.stored_fields import FieldPrefix
from perdure.worker.errors import DamagedRun
from perdure.worker.store import Claim, NotReplicated, Store, StoreUnavailable

#: Prefix of the hash fields that hold results recorded in a step, one field each.
RESULT = "o:"
#: Begins the listed name of a result that is kept as an artifact (record_result.lua).
LARGE = "@"
#: Maximum bytes of a recorded result. The state server writes it in one step.
MOST_LARGE = MOST_TOGETHER
#: A time in ms has fewer digits than this.
MOST_DIGITS = 15
_results = FieldPrefix(RESULT)


class StoreJournal(Journal):
    """The journal of the round that ``claim`` granted.

    Args:
        most_bytes: Maximum size of a result that is recorded in the run's hash (the setting
            max_addition_bytes). A larger result is stored as an artifact.
        broken: Called with an error of the store before the error is raised. A command may catch
            the error as a failure of its own, but the round's result must not be committed.

    Raises:
        DamagedRun: The intents or a recorded result do not match their digest, or belong to another
            step.
        StoreUnavailable: A large result could not be read.
    """

    def __init__(
        self,
        store: Store,
        claim: Claim,
        most_bytes: int,
        broken: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        fields = claim.fields
        self._broken = broken
        self._store = store
        self._claim = claim
        self._most_bytes = most_bytes
        self._run_id, self._step = fields["id"], int(fields["step"])
        super().__init__(self._intents(fields), self._results(fields))
        self.stored = fields.get("intent", "")
        self.wait = self._wait(fields)
        if "intent_at" in fields or "intent_by" in fields:
            self.begun = _begun(fields)

    @property
    def _where(self) -> str:
        return f"run {self._run_id}, step {self._step}"

    @property
    def text(self) -> str:
        """The intents of the step, as they are stored.

        There is one intent per line. The first line is the digest of the others. Empty if the step
        has no intents.
        """
        lines = super().text
        return f"{self._digest('intents', lines)}\n{lines}" if lines else ""

    def write(self, text: str) -> None:
        """Store a round's intents before the round begins a command.

        This always asks the server, because only the worker that holds the round's lease may begin
        a command.

        Args:
            text: All intents of the step (``text``). They replace the stored ones.

        Raises:
            RoundStopped, DamagedRun, StoreUnavailable: The intents are not stored, so the command
                must not be executed.
        """
        claim = self._claim
        with self._reporting_broken():
            word = self._store.rounds.intend(
                self._run_id,
                epoch=int(claim.fields["epoch"]),
                step=self._step,
                token=claim.token,
                claim=claim.id,
                key=text,
            )
        if word != "ok":
            raise self._error(
                word, f"the command of key {self._lines[-1].partition(' ')[0]} was not begun"
            )

    def record(self, name: str, text: str) -> str:
        """Store a named result of the step before the commit, and return it.

        If the step already has a result of this name, that result is kept and returned.

        Raises:
            RoundStopped, DamagedRun, StoreUnavailable: The result is not recorded.
            UnstorableValue: The result takes more than 16 MiB.
            FatalError: The step has recorded the maximum number of results.
        """
        size = len(text.encode())
        is_large = size > self._most_bytes
        if is_large and size > MOST_LARGE:
            raise UnstorableValue(
                f"{self._where}: the result recorded as {name!r} takes {size:,} bytes; the limit "
                f"is {MOST_LARGE:,}. Put large data where the next round can read it, and record "
                "its address"
            )
        nonce = self._claim.fields.get("nonce", "")
        with self._reporting_broken():
            word, detail = self._store.rounds.record_result(
                self._run_id,
                nonce=nonce,
                step=self._step,
                name=name,
                value=self._digest(name, text) if is_large else self.packed(name, text),
                artifact=text if is_large else None,
            )
        if word == "large":
            same = is_large and detail == self._digest(name, text)
            return super().record(name, text if same else self._large(name, detail))
        if word == "full":
            raise FatalError(
                f"{self._where}: {name!r} is not recorded, "
                "for the step has recorded 64 results; record one of many parts"
            )
        if word != "ok":
            raise self._error(word, f"the result {name!r} was not recorded", detail)
        return super().record(name, self._unpacked(name, detail))

    def packed(self, name: str, text: str) -> str:
        """Return a result as it is stored: digest, space and text."""
        return f"{self._digest(name, text)} {text}"

    @contextmanager
    def _reporting_broken(self) -> Iterator[None]:
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
            raise DamagedRun(
                f"{self._where}: the intents {lines[:200]!r} do not match their digest; "
                "the run is quarantined"
            )
        return lines

    def _results(self, fields: Mapping[str, str]) -> dict[str, str]:
        names = [field.removeprefix(RESULT) for field in _results.names(fields)]
        if not names and "once" not in fields:
            return {}
        listed = fields.get("once", "").split("\n") if "once" in fields else []
        if sorted(names) != sorted(listed):
            raise DamagedRun(
                f"{self._where}: the recorded results {sorted(names)} are not those that were "
                f"listed, {sorted(listed)}"
            )
        return {
            name.removeprefix(LARGE): self._large(name.removeprefix(LARGE), fields[RESULT + name])
            if name.startswith(LARGE)
            else self._unpacked(name, fields[RESULT + name])
            for name in names
        }

    def _wait(self, fields: Mapping[str, str]) -> tuple[str, str] | None:
        if "wait" not in fields:
            return None
        name, packed = fields["wait"], fields.get("wait_over", "")
        digest, _, text = packed.partition(" ")
        return name, text if digest == self._digest(f"~{name}", text) else "null"

    def _large(self, name: str, digest: str) -> str:
        """Return a recorded result that is stored as an artifact.

        Raises:
            DamagedRun: The artifact is missing, or does not match ``digest``.
        """
        text = self._store.reads.artifact(self._run_id, f"once/{name}-{self._step}")
        if text is None or digest != self._digest(name, text):
            wrong = "is gone" if text is None else "does not match its digest"
            raise DamagedRun(
                f"{self._where}: the large result recorded as {name!r} {wrong}; "
                "the run is quarantined"
            )
        return text

    def _unpacked(self, name: str, packed: str) -> str:
        digest, _, text = packed.partition(" ")
        if digest != self._digest(name, text):
            raise DamagedRun(
                f"{self._where}: the result recorded as {name!r} does not match its digest; "
                "the run is quarantined"
            )
        return text

    def _digest(self, name: str, text: str) -> str:
        return hashlib.sha256(
            f"{self._run_id} {self._step} {name} {text}".encode("utf-8", "surrogateescape")
        ).hexdigest()[:16]

    def _error(self, word: str, what: str, detail: str = "") -> Exception:
        text = f"{self._where}: {what}: the server answered {word} {detail}".rstrip()
        if word == "damaged":
            damaged = DamagedRun(f"{text}; inspect it with perdure show {self._run_id}")
            self._broken(damaged)
            return damaged
        return RoundStopped(
            f"{text}: the round belongs to another worker, or the run has left it, "
            "was stopped or deleted"
        )


def _begun(fields: Mapping[str, str]) -> dict[str, str]:
    """Return time and worker of the run's last intent, as ``began`` and ``worker``.

    Each is left out if it is missing or unreadable, as after a worker of an earlier version.
    """
    at = fields.get("intent_at", "")
    began = (
        {"began": datetime.fromtimestamp(int(at) / 1000, UTC).isoformat()}
        if at.isdecimal() and len(at) < MOST_DIGITS
        else {}
    )
    return {**began, **({"worker": fields["intent_by"]} if fields.get("intent_by") else {})}
