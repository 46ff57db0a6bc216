"""SavedFilters: views of the table of runs that a person has named."""

from __future__ import annotations

from worker.client import arguments
from worker.client.connection import Connected
from worker.errors import InvalidInput
from worker.store.filters import FilterRecords

#: Characters of a name, which is shown on a button; of a query, as browsers send it.
LONGEST_NAME, LONGEST_QUERY = 60, 2000
#: So many fit beside each other; whoever has more has forgotten some.
MOST = 50


class SavedFilters:
    """Those of ``owner``, on the server of ``client``."""

    def __init__(self, client: Connected, owner: str) -> None:
        arguments.submitter(owner)
        self._records = FilterRecords(client._store, owner)

    def all(self) -> dict[str, str]:
        """Each query by its name, in order of the names."""
        return dict(sorted(self._records.all().items(), key=lambda pair: pair[0].casefold()))

    def save(self, name: str, query: str) -> None:
        """Keep a query under a name (of one line); raises InvalidInput."""
        arguments.text(name, "name")
        arguments.text(query, "query")
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise InvalidInput(f"a filter's name should be a line of 1 to {LONGEST_NAME} characters; it is {name[:LONGEST_NAME]!r}")
        if len(query) > LONGEST_QUERY:
            raise InvalidInput(f"a filter takes at most {LONGEST_QUERY} characters; this one has {len(query)}")
        if len({*self._records.all(), name}) > MOST:
            raise InvalidInput(f"{MOST} filters have a name already; forget one first")
        self._records.put(name, query)

    def forget(self, name: str) -> None:
        """Forget one; none of this name is no error."""
        arguments.text(name, "name")
        self._records.remove(name)
