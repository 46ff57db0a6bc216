"""The commands of real rounds, recorded in this process.

A run is played for that. The commands of any round of any run can be made from them. So
script_driver.py sends the commands of a worker, without a worker's own work.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.worker.app import engine_of, make_app
from perdure.worker.client import Client
from perdure.worker.messaging.fast.template import Template, new_ids
from perdure.worker.messaging.message_builder import Sender
from perdure.worker.runtime.fast.installation import fast_rounds
from perdure.worker.settings import Settings
from perdure.worker.store import scripts
from perdure.worker.store.wire import packed

#: The run that is recorded. Its id is as long as those of the runs that are driven.
RECORDED_RUN = "recorded-run-000"
#: Rounds before the recorded ones, because the first ones differ.
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
    """The calls of a run's submission and rounds.

    Of each kind of call there is one of a controller's round and one of an executor's.

    Attributes:
        fetches: Commits that prefetch.
        stays: Commits by which the run stays.
        commits: Commits that do neither.
    """

    submit: Call
    claims: Sequence[Call]
    commits: Sequence[Call]
    fetches: Sequence[Call]
    stays: Sequence[Call]


def record(settings: Settings, flow: str, inputs: Mapping[str, Any]) -> Recording:
    """Play a run's first rounds in this process, once in each way.

    Returns:
        The recorded calls.
    """
    apart = _played(settings, flow, inputs, fetch=False)
    fetching, staying = (
        _played(settings, flow, inputs, fetch=True, stay=stay) for stay in (False, True)
    )
    commits, fetches = (calls["commit_round"][WARM_UP:] for calls in (apart, fetching))
    return Recording(
        apart["submit_run"][0],
        apart["claim_round"][WARM_UP:],
        commits,
        fetches,
        staying["commit_and_continue"][WARM_UP:],
    )


def _played(
    settings: Settings, flow: str, inputs: Mapping[str, Any], fetch: bool, stay: bool = False
) -> Mapping[str, list[Call]]:
    """Return the calls, by transition."""
    engine, client = engine_of(make_app(settings)), Client(settings=settings)
    submits, calls = noted(client._store), noted(engine.store)
    keys = client._store.keys
    client._store.redis.delete(*keys.of_run(RECORDED_RUN)[:4])
    client.submit(flow, "go", inputs, run_id=RECORDED_RUN)
    client._store.redis.delete(*keys.queue_names)  # the first message is delivered below
    fast = fast_rounds(engine)
    if fetch:
        fast.prefetcher.begin(keys.queue_names, slots=16, inline=False)
    until = math.inf if stay else 0.0
    handoff = fast.handoff(until=until)
    for step in range(WARM_UP + 2):
        word = engine.rounds.run(RECORDED_RUN, 0, step, handoff).word
        assert word == "continued", (
            f"step {step} of the recorded run came to {word!r}; give it more rounds"
        )
        fetched = handoff.prefetched
        assert (fetched is not None and fetched.claim is not None) == fetch, (
            f"step {step} fetched {fetched!r}"
        )
        handoff = fast.handoff(fetched.claim if fetched is not None else None, until=until)
    client.close()
    engine.close()
    made = [*submits, *calls]
    return {
        name: [call for call in made if call.transition == name] for name in scripts.TRANSITIONS
    }


def noted(store: Any) -> list[Call]:
    """Record this store's calls of transitions from now on."""
    calls: list[Call] = []
    real: Callable[..., Any] = store._call

    def call(
        transition: str,
        keys: list[str],
        named: Any,
        fields: Any = None,
        rest: Any = (),
        run_id: str = "",
    ) -> Any:
        rest = list(rest)
        calls.append(Call(transition, keys, dict(named), dict(fields or {}), rest))
        return real(transition, keys, named, fields, rest, run_id)

    store._call = call
    return calls


class Packed:
    """A call ready to send for another run. Some of its arguments are blanks."""

    def __init__(self, call: Call, run_id: str, blanks: Sequence[str] = ()) -> None:
        named = {
            name: _Blank(name) if name in blanks else value
            for name, value in call.named.items()
            if value is not None
        }
        script = scripts.Transition(scripts.source(call.transition))
        words = [
            "EVALSHA",
            script.sha,
            len(call.keys),
            *call.keys,
            *script.arguments(named, call.fields, call.rest),
        ]
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
        """Fill the blanks, and return the command."""
        return b"".join(
            [part if isinstance(part, bytes) else bulk(str(values[part])) for part in self._parts]
        )


class Messages:
    """Messages like the recorded one, for other rounds.

    ``text`` is the message of the recorded round.
    """

    def __init__(self, text: str, epoch: int, step: int) -> None:
        told = json.loads(text)
        self._template = Template(
            text, (RECORDED_RUN, epoch, step), told["properties"]["delivery_info"]["routing_key"]
        )
        self._sender = Sender(None, told["headers"]["parent_id"], told["properties"]["reply_to"])

    def of(self, run_id: str, epoch: int, step: int) -> str:
        """Return the message of this round."""
        return self._template.fill((run_id, epoch, step), self._sender, *new_ids())


@dataclass(frozen=True)
class _Blank:
    name: str


def bulk(text: str) -> bytes:
    """Return a text as it is sent (RESP)."""
    return packed([text]).partition(b"\r\n")[2]
