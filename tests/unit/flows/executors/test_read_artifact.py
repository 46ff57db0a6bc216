"""read_artifact: the whole of a result that was cut, in parts that the history takes whole."""

from __future__ import annotations

import pytest

from perdure.flows.core.summaries import MOST, bounded
from perdure.flows.executors.files import PART, read_artifact
from perdure.flows.rounds.context import RoundContext

TEXT = "".join(f'line "{number}"\n' for number in range(10_000))


def kept(name: str) -> str:
    """Return an artifact of a run."""
    return {"3-http_get": TEXT}[name]


def test_a_result_that_was_cut_is_read_in_parts_by_the_name_that_it_tells() -> None:
    cut, artifacts = bounded(TEXT, MOST, "3-http_get")
    context = RoundContext("g", artifact=artifacts.__getitem__)
    found, offset = "", 0
    while offset is not None:
        part = read_artifact(context, cut["artifact"], offset)
        assert bounded(part, MOST, "it")[1] == {}, "a part is not cut again"
        assert len(part["text"]) <= PART and part["characters"] == len(TEXT)
        found, offset = found + part["text"], part.get("next_offset")
    assert found == TEXT


@pytest.mark.parametrize(("offset", "text"), [(-5, TEXT[:PART]), (len(TEXT), ""), (10**30, "")])
def test_an_offset_beyond_either_end_is_the_end(offset: int, text: str) -> None:
    assert read_artifact(RoundContext("g", artifact=kept), "3-http_get", offset)["text"] == text


def test_a_name_that_no_artifact_has_is_told() -> None:
    with pytest.raises(ValueError, match=r"'\.\./secrets'"):
        read_artifact(RoundContext("g", artifact=kept), "../secrets")
