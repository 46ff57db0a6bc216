"""The terms in docs/guides/find-runs.md are read as the page says."""

from __future__ import annotations

import re
from pathlib import Path

from perdure.worker.domain.run_query import KEYS, RunQuery

PAGE = Path(__file__).parents[3] / "docs/guides/find-runs.md"


def test_every_term_of_the_page_can_be_read_and_no_key_is_left_out() -> None:
    text = PAGE.read_text("utf-8")
    terms = re.findall(r"`(-?[a-z]+:[^`\s]+)`", text)
    for term in terms:
        RunQuery.of(term)
    keys = {term.lstrip("-").partition(":")[0] for term in terms}
    assert keys == set(KEYS)
