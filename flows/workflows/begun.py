"""Begun requests: the ones that an earlier attempt of a round has begun and no commit has finished.

They are the next entries of the journal. The function must come to them before anything else, or
their effects would be forgotten and caused a second time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.json_values import canonical
from perdure.flows.core.round_journal import SCOPE
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.arguments import INCOMPARABLE, digest_of, is_older
from perdure.flows.workflows.journal import Diverged
from perdure.flows.workflows.requests import Request, StepRequest
from perdure.flows.workflows.step_decisions import answered_key

#: Begins the names of the records of steps that failed and are tried again (``mark_begun``).
BEGUN = "~begun"
#: Scope of the records of steps' results that workers of older releases cannot read.
WHOLE = f"~whole{SCOPE}"
#: Begins the scope of the records of steps' failures, after a retry of the run by a person.
FAILED = "~failed"
#: The fields of a step's record, of which each has one. Users' own records lack them.
OUTCOMES = {"result", "error", "parts"}
#: Kinds of waits whose arguments may change while they last: a signal is looked up by its name.
CHANGEABLE = ("signal", "sleep")


@dataclass(frozen=True, slots=True)
class Begun:
    """A request that an earlier attempt of the round has begun.

    Attributes:
        key: the key of the request.
        state: how far the request has come, for error messages.
        kind: the kind of the request. Empty if it is not known.
        of: the digest of its arguments. Empty if it is not known.
        is_fixed: whether a request with other arguments diverges even if the workflow is not
            strict.
    """

    key: str
    state: str
    kind: str = ""
    of: str = ""
    is_fixed: bool = True

    def differs_from(self, kind: str, of: str, strict: bool) -> bool:
        """Return whether a request of the same key is another request.

        Args:
            kind: the kind of that request.
            of: the digest of its arguments. Empty if they are not compared.
            strict: whether the arguments must be the same in any case.
        """
        if self.kind and self.kind != kind:
            return True
        are_comparable = bool(self.of and of) and INCOMPARABLE not in (self.of, of)
        are_comparable = are_comparable and is_older(self.of) == is_older(of)
        return are_comparable and self.of != of and (strict or self.is_fixed)


def begun_requests(context: RoundContext) -> dict[str, Begun]:
    """Return the requests that earlier attempts of the round have begun, by key.

    Requests that a worker of an older release has begun are missing, or lack their digests.
    """
    journal = context.journal
    if not (context.answered or journal.recorded or journal.wait or journal.described):
        return {}  # as in most rounds
    found = [*_answered(context), *_recorded(context), *_waiting(context), *_intended(context)]
    return {each.key: each for each in found}


def mark_begun(context: RoundContext, step: StepRequest) -> None:
    """Record that a step has failed and is tried again."""
    # A retry of the run by a person tries a failed step again. The record then does not count.
    name = f"{scope_of_retry(BEGUN, context) or f'{BEGUN}{SCOPE}'}{step.key} {context.retried}"
    if name not in context.journal.recorded:
        context.journal.record(name, canonical({"begun": step.kind, "of": step.of}))


def scope_of_retry(what: str, context: RoundContext) -> str:
    """Return the scope of records that count until the next retry of the run by a person.

    The records of earlier retries stay, so each retry has its own scope and its own limit of
    records (``MOST_RESULTS``).

    Args:
        what: the beginning of the scope.

    Returns:
        An empty text before the first retry.
    """
    return f"{what} {context.retried}{SCOPE}" if context.retried else ""


def name_of_failure(key: str, context: RoundContext) -> str:
    """Return the name of the record of a step's failure, without its scope."""
    return f"{key}-failed{context.retried}"


def check_order(items: Iterable[Any], flow: str, key: str, context: RoundContext) -> None:
    """Raise an exception if the items of a map have no order: its answers would go to other items.

    Args:
        flow: the flow of the map's child runs.
        key: the key of the map.

    Raises:
        InvalidFlow: the items are a set.
        Diverged: the items are a set, and other code has begun the map. A worker of an older
            release did not refuse a set.
    """
    if not isinstance(items, set | frozenset):
        return
    what = f"steps.map({flow!r}, ...) is given a set, which has another order in each process"
    if context.journal.wait is None or context.journal.wait[0] != key:
        raise InvalidFlow(
            f"run {context.run_id}: {what}, so that answers would go to other items. Give it a "
            f"list: steps.map({flow!r}, sorted(items))"
        )
    raise Diverged(
        f"run {context.run_id}, step {context.step}: {what}. The child runs of {key!r} were "
        "started by other code, in an order that is not known any more, so answers could go to "
        "other items. Nothing was carried out. Let workers of the version that started them finish "
        "the run, or stop it, and submit it again to code that gives a list: sorted(items)",
        is_of_other_code=True,
    )


def is_of_step(told: Any) -> bool:
    """Return whether a record has the entry of a step. ``once`` may have recorded anything else."""
    return isinstance(told, dict) and told.get("kind") == "step" and bool(told.keys() & OUTCOMES)


def digest_of_all(requests: Sequence[Request]) -> str:
    """Return the digest of the arguments of several requests that are begun together."""
    if len(requests) == 1:
        return requests[0].of
    return digest_of([[each.key, each.of] for each in requests])


def _answered(context: RoundContext) -> Iterator[Begun]:
    key = answered_key(context)
    if key is not None:
        # The question has the digest, since an attempt that asked another one may have been lost.
        of = str((context.asked or {}).get("asks_of", ""))
        yield Begun(key, "was answered by a person", "ask" if of else "", of)


def _recorded(context: RoundContext) -> Iterator[Begun]:
    """Return the steps with a recorded result, and those that failed and are tried again."""
    failed = name_of_failure("", context)
    for name in list(context.journal.recorded):
        told = _told(context, name)
        if told.get("begun") == "step" and name.startswith(BEGUN):
            key, _, retried = name.partition(SCOPE)[2].partition(" ")
            if retried == context.retried:
                state = "has failed, and is to be tried again"
                yield Begun(key, state, "step", told["of"], is_fixed=False)
        elif is_of_step(told) and "of" in told:
            key = name.removeprefix(WHOLE).removeprefix(SCOPE)
            if "error" not in told:
                yield Begun(key, "was carried out", "step", told["of"])
            elif key.endswith(failed):
                key = key.removeprefix(scope_of_retry(FAILED, context)).removesuffix(failed)
                yield Begun(key, "has failed", "step", told["of"])


def _waiting(context: RoundContext) -> Iterator[Begun]:
    if context.journal.wait is not None:
        name, text = context.journal.wait
        kind, of = json.loads(text) or ("", "")
        if kind:  # Not a wait of ``steps.context``, nor of a worker of an older release.
            yield Begun(name, "has begun to wait", kind, of, is_fixed=kind not in CHANGEABLE)


def _intended(context: RoundContext) -> Iterator[Begun]:
    for about in context.journal.described:
        key, _, of = about.partition(" ")
        yield Begun(key, "was begun, and may have happened", "step", of)


def _told(context: RoundContext, name: str) -> Mapping[str, Any]:
    """Return a record about a request. Empty if the record is about something else."""
    text = context.journal.recorded.get(name, "")
    if '"kind":"step"' not in text and '"begun":' not in text:
        return {}  # Most records: results of ``once``, which may be long.
    told = json.loads(text)
    return told if isinstance(told, dict) else {}
