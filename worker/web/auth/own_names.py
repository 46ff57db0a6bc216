"""Names that belong to a caller over HTTP: idempotency keys and topics.

They are stored with the caller's name in front, so that they never match another caller's. The
caller sees them as sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from perdure.flows.core.errors import PerdureError
from perdure.worker.domain.run import Page, Run
from perdure.worker.domain.verdict import Verdict


def own_name(caller: str, name: str) -> str:
    """Return the name under which a caller's idempotency key or topic is stored."""
    return f"{caller}/{name}"


@contextmanager
def errors_name(sent_names: Mapping[str, str]) -> Iterator[None]:
    """Show the caller's names in the text of an error.

    The caller's names of topics and keys replace the names under which these are stored. The
    block's PerdureError is changed and raised again.

    Args:
        sent_names: The name that the caller sent, by the name that is stored.
    """
    try:
        yield
    except PerdureError as error:
        if sent_names:
            error.args = (_with_sent_names(str(error), sent_names),)
        raise


def as_sent(result: Any, caller: str) -> Any:
    """Return an operation's result, in which the caller's topics have the names that were sent.

    Topics of other callers, which only some callers may see, keep their stored names.

    Args:
        result: A run, a page or list of runs or verdicts, or a verdict. Other results are returned
            as they are.
    """
    if isinstance(result, Page):
        return replace(result, runs=as_sent(result.runs, caller))
    if isinstance(result, list):
        return [as_sent(each, caller) for each in result]
    if not isinstance(result, Run | Verdict):
        return result
    stored, own = result.details.get("topic", ""), own_name(caller, "")
    if not stored.startswith(own):
        return result
    sent = stored.removeprefix(own)
    details = {**result.details, "topic": sent}
    if isinstance(result, Verdict):
        sentence = _with_sent_names(result.sentence, {stored: sent})
        return replace(result, details=details, sentence=sentence)
    return replace(result, details=details)


def _with_sent_names(text: str, sent_names: Mapping[str, str]) -> str:
    """Return a text with the sent names in place of the stored ones."""
    quoted = {repr(stored): repr(sent) for stored, sent in sent_names.items()}
    shown = {**sent_names, **quoted}
    names = "|".join(re.escape(each) for each in sorted(shown, key=len, reverse=True))
    # A path, or a longer name, may have a stored name in it.
    whole = rf"(?<![\w/])(?:{names})(?![\w/])"
    return re.sub(whole, lambda match: shown[match[0]], text)
