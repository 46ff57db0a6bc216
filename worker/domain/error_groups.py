"""Kinds of errors, and groups of runs that failed alike.

The runs of a group have the same flow, node and kind of error. The kind is derived from the stored
error text, so runs of earlier releases have a kind too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from perdure.worker.domain.document import Document

#: Number of errored runs that are looked at if the caller sets no bound: about 30 ms.
LOOKED_AT = 2000
#: Maximum number of errored runs that one HTTP request may look at.
MOST_LOOKED = 15_000
#: Maximum characters of a kind that is a sentence, not the name of a class.
KIND_CHARACTERS = 80
#: Kind of errors without text, so that a query can name it.
NO_TEXT = "(no text)"
#: Beginning of a stored error: the run, its step and its node.
_WHERE = re.compile(r"run \S+, step \d+(?:, node [^:]*)?: ")
#: The class of an exception, in front of its message, which may be empty. Few classes begin in
#: lower case: ``gaierror``, ``struct.error``.
_CLASS = re.compile(r"(_*[A-Z]\w*|\w*error)(?:: |:?$)")
#: The class of an exception behind the words of a workflow, command or graph that it ended.
_WRAPPED_CLASS = re.compile(
    r"(?:the workflow raised|step .+? failed:|command '.+?' failed:|"
    r"the node '.+?' of the graph failed:) (\w+)(?=[:.,]|$)"
)
#: Parts of a sentence that differ between equal failures: quoted texts, ids and numbers.
_VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|\b(?=[A-Za-z_-]*\d)[\w-]+(?:\.\d+)*")


def kind_of(error: str) -> str:
    """Return the kind of a stored error text.

    It is the name of the exception's class. If the text names no class, it is the text's first
    line, cut at KIND_CHARACTERS, with "…" for quoted texts, ids and numbers. It is ``NO_TEXT`` for
    an empty text.
    """
    lines = _WHERE.sub("", error, count=1).strip().splitlines()
    if not lines:
        return NO_TEXT
    named = _CLASS.match(lines[0]) or _WRAPPED_CLASS.match(lines[0])
    if named is not None:
        return named[1]
    return _VARIABLE.sub("…", lines[0])[:KIND_CHARACTERS].strip()


@dataclass(frozen=True)
class ErrorGroup(Document):
    """Errored runs of one flow that failed at the same node with the same kind of error."""

    flow: str
    """The flow of the runs."""
    node: str
    """The node at which they failed."""
    kind: str
    """The class of the exception, or the sentence of the error without ids and numbers.

    `(no text)` for an error without text.
    """
    count: int
    """Number of runs, among those that were looked at."""
    newest: str
    """Id of the run that failed last."""
    newest_at: datetime
    """When that run failed."""
    error: str
    """The error of that run. If it is long, its beginning and its end."""
    query: str
    """Query line that chooses exactly the runs of this group, as for `perdure retry --query`.

    Empty if no query can: a damaged run may have no flow or node. Bulk operations refuse an empty
    query.
    """
    remedy: str = "retry"
    """What continues the newest run: `retry`, or `fork` or `again` if a retry does not help it.

    See `Run.details["remedy"]`.
    """


@dataclass(frozen=True)
class ErrorGroups(Document):
    """Errored runs in groups, the largest group first."""

    groups: list[ErrorGroup]
    """The groups. Of equal size, the group with the newest failure comes first."""
    looked_at: int
    """Number of errored runs that were looked at, the newest first."""
    looked_back: datetime | None = None
    """Errored runs before this time were not looked at. Not set if all were looked at.

    It is a time of failure, or of submission if only the runs of one submitter were searched.
    """
