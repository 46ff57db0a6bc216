"""Reading: look at runs, one or many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.client import Page, arguments
from worker.remote.connection import Connected, path_of
from worker.remote.refusing import not_here
from worker.run import Run, RunStatus
from worker.verdict import Verdict

#: Runs that the server puts on one page, at most.
PAGE = 1000


class Reading(Connected):
    """Changes nothing."""

    def get(self, run_id: str) -> Run:
        """The run as it is now; raises RunNotFound, DamagedRun."""
        return Run.from_dict(self._ask(path_of(run_id)))

    def runs(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        submitted_by: str | None = None,
        look: int | None = None,
    ) -> Page:
        """Runs that the caller sees, newest first, some at a time; ``cursor`` continues where a page of the same status ended.

        Args:
            labels: only runs with these. submitted_by: cannot be asked for: the token says whose runs one sees.
            look: at most about so many runs are looked at.
        """
        arguments.limit(limit)
        arguments.optional_texts(flow=flow)
        arguments.mapping(labels, "labels", of_texts=True)
        arguments.look(look)
        not_here(submitted_by=submitted_by)
        wanted = arguments.status(status)
        arguments.cursor(cursor)
        told = [f"{name}={text}" for name, text in (labels or {}).items()]
        found: list[Run] = []
        damaged: tuple[str, ...] = ()
        while True:
            page = Page.from_dict(
                self._ask(
                    "/runs",
                    status=wanted and wanted.value,
                    flow=flow,
                    limit=min(PAGE, limit - len(found), look or PAGE),
                    cursor=cursor,
                    label=told,
                )
            )
            found += page.runs
            damaged += page.damaged
            cursor = page.cursor
            # The server looks at so many for one page; a page that is not full goes on behind them.
            if cursor is None or len(found) >= limit or look is not None:
                return Page(found, cursor, damaged)

    def ids_beginning(self, text: str) -> list[str]:
        """Return the ids that begin with ``text``, of the newest 1,000 runs that the caller sees."""
        arguments.text(text, "text")
        return [run.id for run in self.runs(limit=PAGE, look=PAGE) if run.id.startswith(text)]

    def status_counts(self, submitted_by: str | None = None) -> dict[str, int]:
        """Return how many runs there are of each status, as far as the caller sees them; of one's own, among the newest 1,000."""
        not_here(submitted_by=submitted_by)
        return dict(self._ask("/runs", limit=1).get("counts") or {})

    def transcript(self, run_id: str) -> dict[str, Any]:
        """The whole run as JSON data: ``run``, ``history`` and ``events``."""
        return dict(self._ask(path_of(run_id, "transcript")))

    def artifacts(self, run_id: str) -> dict[str, int]:
        """The names of what the run keeps whole beside its history, each with its size in bytes; raises RunNotFound."""
        return dict(self._ask(path_of(run_id, "artifacts")))

    def artifact(self, run_id: str, name: str) -> str:
        """One of them; raises RunNotFound, and ArtifactNotFound naming those there are."""
        arguments.text(name, "name")
        return self._sent("GET", path_of(run_id, "artifacts", name)).content.decode("utf-8", "surrogateescape")

    def why(self, run_id: str) -> Verdict:
        """Why the run is where it is: one code, one sentence, since when; raises RunNotFound."""
        return Verdict.from_dict(self._ask(path_of(run_id, "why")))
