"""The commands of a real round, noted while a real run is played in this process; from them, those of any round of any run.

What drives the scripts without Celery (driving.py) sends exactly what a worker would, without the worker's own work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker.app import engine_of, make_app
from worker.carrier import Sender
from worker.client import Client
from worker.settings import Settings
from worker.store import scripts
from worker.template import Template, new_ids

#: The run that is played for the record; its id is as long as those of the runs that are driven.
RECORDED_RUN = "recorded-run-000"
#: Rounds before those whose commands are kept: the first ones differ.
WARM_UP = 2


@dataclass(frozen=True)
class Call:
    """A transition as the store called it."""

    transition: str
    keys: Sequence[str]
    named: Mapping[str, Any]
    fields: Mapping[str, str]
    rest: Sequence[str]


@dataclass(frozen=True)
class Recording:
    """What a run's submission and its rounds sent; of claims and commits one of a controller's round and one of an executor's."""

    submit: Call
    claims: Sequence[Call]
    commits: Sequence[Call]


def record(settings: Settings, flow: str, inputs: Mapping[str, Any]) -> Recording:
    """Play the first rounds of a run of ``flow`` in this process, and tell what was sent. The run stays as it is then."""
    engine, client = engine_of(make_app(settings)), Client(settings=settings)
    submitted, calls = noted(client._store), noted(engine.store)
    client.submit(flow, "go", inputs, run_id=RECORDED_RUN)
    for step in range(WARM_UP + 2):
        word = engine.rounds.play(RECORDED_RUN, 0, step)
        assert word == "continued", f"step {step} of the recorded run came to {word!r}; give it more rounds"
    client.close()
    engine.close()
    kept = calls[2 * WARM_UP :]
    assert [call.transition for call in kept] == ["claim_round", "commit_round"] * 2, [call.transition for call in kept]
    return Recording(submitted[0], kept[::2], kept[1::2])


def noted(store: Any) -> list[Call]:
    """The transitions that this store calls from now on."""
    calls: list[Call] = []
    real: Callable[..., Any] = store._call

    def call(transition: str, keys: list[str], named: Any, fields: Any = None, rest: Any = (), run_id: str = "") -> Any:
        rest = list(rest)
        calls.append(Call(transition, keys, dict(named), dict(fields or {}), rest))
        return real(transition, keys, named, fields, rest, run_id)

    store._call = call
    return calls


class Packed:
    """A call in the server's wire format, for another run, with blanks for some of its arguments."""

    def __init__(self, call: Call, sha: str, run_id: str, blanks: Sequence[str]) -> None:
        named = {name: _Blank(name) if name in blanks else value for name, value in call.named.items()}
        words = ["EVALSHA", sha, len(call.keys), *call.keys, *scripts.arguments(named, call.fields, call.rest)]
        parts: list[bytes | str] = []
        known = b"*%d\r\n" % len(words)
        for word in words:
            if isinstance(word, _Blank):
                parts += [known, word.name]
                known = b""
            else:
                known += bulk(str(word).replace(RECORDED_RUN, run_id))
        self._parts = [*parts, known]

    def fill(self, **values: object) -> bytes:
        """The command, with these texts in its blanks."""
        return b"".join([part if isinstance(part, bytes) else bulk(str(values[part])) for part in self._parts])


class Messages:
    """The messages that the rounds of a run have, as Celery's would be; one call's, so one role's."""

    def __init__(self, commit: Call) -> None:
        told = json.loads(commit.named["message"])
        headers, properties = told["headers"], told["properties"]
        self._template = Template(commit.named["message"], (RECORDED_RUN, 0, int(commit.named["step"]) + 1))
        self._sender = Sender(None, headers["parent_id"], properties["reply_to"])

    def of(self, run_id: str, step: int) -> str:
        """The message of this round."""
        return self._template.fill((run_id, 0, step), self._sender, *new_ids())


@dataclass(frozen=True)
class _Blank:
    name: str


def bulk(text: str) -> bytes:
    """A text in the server's wire format."""
    raw = text.encode()
    return b"$%d\r\n%b\r\n" % (len(raw), raw)
