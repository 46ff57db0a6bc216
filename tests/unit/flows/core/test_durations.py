"""Durations as people write them, everywhere a time is taken."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import click
import pytest

from perdure import Approval, InvalidFlow, Retry, command
from perdure.flows.commands.command import spec_of
from perdure.flows.core.durations import seconds_of
from perdure.flows.loading.load import read_flow
from perdure.worker.cli.options import when
from perdure.worker.operations import validation
from perdure.worker.settings import Settings


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("50ms", 0.05),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("PT10M", 600),
        ("P1DT2H", 93_600),
        ("90", 90),
        ("1.5", 1.5),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "P", "PT", "10x", "1e3", "nan", "m10"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        seconds_of(text)


def test_an_option_takes_a_duration_or_a_time() -> None:
    option = click.Option(["--deadline"])
    context = click.Context(click.Command("x"))
    assert when(context, option, "10m") == timedelta(minutes=10)
    assert when(context, option, "2026-11-22T08:00:00+01:00") == datetime.fromisoformat(
        "2026-11-22T07:00:00+00:00"
    )
    with pytest.raises(click.BadParameter, match="is not a time"):
        when(context, option, "soon")


def test_what_is_no_duration_is_told_where_it_stands() -> None:
    for given in (
        lambda: Retry(within="soon"),
        lambda: command(timeout="soon"),
        lambda: command(approval=Approval(deadline="soon")),
    ):
        with pytest.raises(InvalidFlow, match="soon"):
            given()
    with pytest.raises(ValueError, match="patience_seconds"):
        Settings(patience_seconds="soon")  # type: ignore[arg-type]


def test_http_python_and_yaml_take_them_too(tmp_path: Path) -> None:
    from perdure.worker.web.api.bulk import DeleteMany
    from perdure.worker.web.api.requests import Submit

    assert Submit(flow="f", goal="g", deadline="7d").deadline == 604_800  # type: ignore[arg-type]
    assert DeleteMany(status="completed", older_than_seconds="7d").older_than_seconds == 604_800  # type: ignore[arg-type]
    assert validation.timeout(timedelta(minutes=2)) == 120
    assert Retry(within="PT1H", initial="1h30m").to_data() == {"within": 3600.0, "initial": 5400.0}
    assert (
        Settings(patience_seconds="7d", round_timeout_seconds="PT10M").patience_seconds == 604_800
    )  # type: ignore[arg-type]
    limited = command(name="test.limited", timeout="90s", approval=Approval(deadline="7d"))(
        lambda: None
    )
    assert spec_of(limited).timeout == 90
    file = tmp_path / "f.yaml"
    file.write_text("flow: controller_executor\ncontroller: person\nround_timeout_seconds: 10m\n")
    assert read_flow(file)().round_timeout_seconds == 600
