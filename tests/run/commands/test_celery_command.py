"""``celery -A APP perdure ...``: the commands on an app that Perdure was installed on."""

from __future__ import annotations

import pytest

from perdure import Client, Settings
from tests.support.celery_command import APP, CeleryCommand
from tests.support.round_driver import driving


@pytest.fixture
def celery(settings: Settings) -> CeleryCommand:
    return CeleryCommand(settings)


def test_a_run_is_submitted_watched_and_listed_where_the_app_has_it(
    celery: CeleryCommand, client: Client, settings: Settings
) -> None:
    submitted = celery(*APP, "perdure", "submit", "countdown", "try it", "--input", "rounds=2")
    run_id = submitted.out.strip()
    assert (
        submitted.code == 0
        and f"celery -A tests.support.apps.user_app perdure watch {run_id}" in submitted.err
    )
    with driving(settings) as driver:
        driver.play()
    assert celery(*APP, "perdure", "watch", run_id).code == 0
    assert client.get(run_id).status.value == "completed"
    [listed] = celery(*APP, "perdure", "list", "--json").json
    assert listed["id"] == run_id
    assert celery(*APP, "perdure", "why", run_id, "--json").json["code"] == "ended"
    # Another server can be named.
    assert celery(*APP, "perdure", "list", "--url", "unix:///nowhere/at-all.sock").code == 7


def test_a_broker_that_only_an_app_of_ones_own_may_have_is_no_hindrance(
    celery: CeleryCommand, settings: Settings
) -> None:
    there = {
        "PERDURE_REDIS_URL": str(settings.redis_url),
        "THEIRS_BROKER": "amqp://127.0.0.1:1//;amqp://127.0.0.1:2//",
    }
    submitted = celery(*APP, "perdure", "submit", "countdown", "try it", **there)
    assert submitted.code == 0, submitted
    handover = [
        row
        for row in celery(*APP, "perdure", "doctor", "--json", **there).json
        if row["check"] == "handover"
    ]
    assert "the broker does not answer" in handover[0]["sentence"]


def test_the_doctor_examines_that_app(celery: CeleryCommand) -> None:
    found = {row["check"]: row["level"] for row in celery(*APP, "perdure", "doctor", "--json").json}
    assert found["prefetch-multiplier"] == found["remote-control"] == "warning"
    sets = '{"broker_transport_options": {"priority_steps": [3, 6]}}'
    refused = celery(*APP, "perdure", "doctor", THEIRS_SETS=sets)
    assert refused.code == 1 and "queue-names" in refused.err and "priority_steps" in refused.out


def test_an_app_without_perdure_is_told_so_in_a_sentence(celery: CeleryCommand) -> None:
    for done in (
        celery(*APP, "perdure", "list", THEIRS_HAS_PERDURE="0"),
        celery("perdure", "list"),
    ):
        assert (
            done.code == 2
            and done.out == ""
            and "perdure.install(app)" in done.err
            and done.err.count("\n") == 1
        )
    nowhere = celery(*APP, "perdure", "list", THEIRS_BROKER="memory://")
    assert nowhere.code == 2 and "set redis_url" in nowhere.err


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("worker", "celery -A tests.support.apps.user_app worker"),
        ("up", "worker"),
        ("demo", "perdure demo"),
    ],
)
def test_what_an_app_has_another_way_for_is_left_out_and_says_so(
    celery: CeleryCommand, name: str, instead: str
) -> None:
    done = celery(*APP, "perdure", name)
    assert done.code == 2 and instead in done.err
    assert f"\n  {name} " not in celery(*APP, "perdure", "--help").out


def test_errors_have_the_exit_codes_of_perdure(celery: CeleryCommand) -> None:
    assert celery(*APP, "perdure", "show", "nobody").code == 3
    assert celery(*APP, "perdure", "lst").code == 2
    assert celery(*APP, "perdure", "submit").code == 2
