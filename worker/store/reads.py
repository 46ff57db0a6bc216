"""Reads of stored runs: their hashes, histories, artifacts and files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from perdure.flows.core.files import (
    BYTES,
    TYPE,
    File,
    FileReference,
    artifact_name,
    file_of,
    is_of_file,
)
from perdure.worker.store.part import StorePart

#: Hashes or entries that a script reads in one exchange. It takes about 2 ms of the server.
MANY = 1_000
#: Stands for the reply to a read of a key that is not a hash.
MISTYPED: dict[str, str] = {}


class RunFields(StorePart):
    """Reads of the hashes, histories, artifacts and files of runs (``store.reads``)."""

    def fields(self, run_id: str) -> dict[str, str] | None:
        """Return all fields of a run's hash. None if there is no such run."""
        with self._store._answered():
            return cast(dict[str, str], self._store.redis.hgetall(self.keys.run(run_id))) or None

    def holds(self, run_id: str, token: str, claim: str) -> bool:
        """Return whether a claimed round may still begin.

        It may if the claim still holds the run's lease, and no stop is requested.

        Args:
            token: the token of the claim.
            claim: the id of the claim.
        """
        names = ("phase", "token", "claim_id", "stop_current_execution")
        with self._store._answered():
            phase, *held, stop = cast(
                "list[str | None]", self._store.redis.hmget(self.keys.run(run_id), names)
            )
        return phase == "leased" and held == [token, claim] and stop != "stop_requested"

    def memory(self, run_id: str, start: int = 0, stop: int | None = None) -> list[str]:
        """Return turns of a run's history, as stored texts.

        Args:
            start: the position of the first turn. A negative position counts from the end.
            stop: the position after the last turn. None: up to the newest turn.
        """
        with self._store._answered():
            return cast(
                list[str],
                self._store.redis.lrange(
                    self.keys.memory(run_id), start, -1 if stop is None else stop - 1
                ),
            )

    def records(self, run_ids: Sequence[str]) -> list[dict[str, str] | None]:
        """Return all fields of several runs' hashes, in one exchange.

        Returns:
            The fields of each run, in the order of ``run_ids``. None for a run that does not exist.
            An empty dict for a run whose key is not a hash.
        """
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            for run_id in run_ids:
                pipe.hgetall(self.keys.run(run_id))
            replies = _hashes(pipe.execute(raise_on_error=False))
        return [reply if reply is MISTYPED else reply or None for reply in replies]

    def fields_by_run(self, wanted: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
        """Return some fields of several runs, in one exchange.

        Args:
            wanted: the names of the fields to read, by run id.

        Returns:
            The fields of each run, in the order of ``wanted``. Fields that a run does not have are
            left out. Empty for a run whose key is not a hash.
        """
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            for run_id, names in wanted.items():
                pipe.hmget(self.keys.run(run_id), names)
            replies = _hashes(pipe.execute(raise_on_error=False))
        return [
            {}
            if reply is MISTYPED
            else {name: text for name, text in zip(names, reply, strict=True) if text is not None}
            for names, reply in zip(wanted.values(), replies, strict=True)
        ]

    def some_fields(self, run_ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
        """Return the same fields of several runs, in one exchange.

        Returns:
            The fields of each run, in the order of ``run_ids``. Fields that a run does not have are
            left out. Empty for a run whose key is not a hash.
        """
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            for run_id in run_ids:
                pipe.hmget(self.keys.run(run_id), names)
            replies = _hashes(pipe.execute(raise_on_error=False) if run_ids else [])
        fields_by_run = [
            {} if reply is MISTYPED else dict(zip(names, reply, strict=True)) for reply in replies
        ]
        return [
            {name: text for name, text in fields.items() if text is not None}
            for fields in fields_by_run
        ]

    def many_fields(self, run_ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
        """Return the same fields of very many runs.

        The result is that of ``some_fields``. But a script (read_fields.lua) reads a thousand runs
        in each exchange, and replies with one text. This process parses that text in a thirtieth of
        the time that a thousand replies take.
        """
        script, found = self._store._scripts["read_fields"], []
        for begin in range(0, len(run_ids), MANY):
            keys = [self.keys.run(run_id) for run_id in run_ids[begin : begin + MANY]]
            with self._store._answered():
                found += json.loads(script(self._store._wire, keys, names))
        return [
            {}
            if texts is False
            else {name: text for name, text in zip(names, texts, strict=True) if text is not False}
            for texts in found
        ]

    def artifact(self, run_id: str, name: str) -> str | None:
        """Return the text of a run's artifact. None if the run has no such artifact."""
        with self._store._answered():
            return cast("str | None", self._store.redis.hget(self.keys.artifacts(run_id), name))

    def artifacts(self, run_id: str) -> dict[str, int]:
        """Return the size in bytes of each artifact of a run, by name.

        Artifacts that only hold the media type of a file are left out.
        """
        key = self.keys.artifacts(run_id)
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            names = sorted(cast(list[str], self._store.redis.hkeys(key)))
            names = [name for name in names if not is_of_file(name, (TYPE,))]
            for name in names:
                pipe.hstrlen(key, name)
            return dict(zip(names, pipe.execute(), strict=True))

    def file(self, run_id: str, name: str) -> File | None:
        """Return one file of a run. None if the run has no such file.

        Args:
            name: the name of the file. A fork also has files of child runs, under ``RUN/NAME``.
        """
        names = [artifact_name(BYTES, name), artifact_name(TYPE, name)]
        with self._store._answered():
            content, media_type = cast(
                "list[str | None]", self._store.redis.hmget(self.keys.artifacts(run_id), names)
            )
        if content is None or media_type is None:
            return None
        return file_of(name, content, media_type)

    def files(self, run_id: str) -> list[FileReference]:
        """Return references to all files of a run: name, media type and size."""
        key = self.keys.artifacts(run_id)
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            found = cast(list[str], self._store.redis.hkeys(key))
            names = sorted(name.removeprefix(TYPE) for name in found if name.startswith(TYPE))
            for name in names:
                pipe.hget(key, TYPE + name)
                pipe.hstrlen(key, BYTES + name)
            told = pipe.execute()
        return [
            FileReference(name, media_type, size)
            for name, media_type, size in zip(names, told[::2], told[1::2], strict=True)
            if media_type is not None
        ]


def _hashes(replies: list[Any]) -> list[Any]:
    """Return the replies to reads of hashes.

    The error reply for a key that is not a hash is replaced by ``MISTYPED``.

    Raises:
        redis.ResponseError: another error reply, for example because of an ACL.
    """
    for reply in replies:
        if isinstance(reply, Exception) and not str(reply).startswith("WRONGTYPE"):
            raise reply
    return [MISTYPED if isinstance(reply, Exception) else reply for reply in replies]
