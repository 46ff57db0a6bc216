"""Errors: their classes' codes for programs, over HTTP and for the shell."""

from __future__ import annotations

import httpx2
import pytest

import perdure
import perdure.testing
from perdure import AccessDenied, PerdureError, StoreUnavailable
from perdure.worker import embedded
from perdure.worker import errors as worker_errors
from perdure.worker.cli.exit_codes import NO_SERVER, NOT_POSSIBLE, Failed, NoServer, code_of
from perdure.worker.client.remote.problems import raise_problem
from perdure.worker.errors import HTTP_ERRORS, http_class
from tests.support.cases import EachCase, cases_of

PUBLIC = sorted(
    {
        value
        for module in (perdure, perdure.testing, worker_errors, embedded)
        for value in (getattr(module, name) for name in module.__all__)
        if isinstance(value, type) and issubclass(value, PerdureError)
    },
    key=lambda cls: cls.__name__,
)


def test_each_public_error_has_a_code_of_its_own() -> None:
    from perdure.worker.web.problems import REQUEST_PROBLEMS

    assert len(PUBLIC) > 30
    assert [cls for cls in PUBLIC if "code" not in vars(cls)] == []
    assert len({cls.code for cls in PUBLIC}) == len(PUBLIC)
    of_requests = {code for status, (code, _) in REQUEST_PROBLEMS.items() if status != 500}
    assert of_requests.isdisjoint(cls.code for cls in PUBLIC)


def test_what_http_reports_under_a_code_has_a_title_and_a_status_of_its_own() -> None:
    reported = [cls for cls in PUBLIC if "http_status" in vars(cls) and cls is not PerdureError]
    assert set(reported) == set(HTTP_ERRORS.values())
    assert [cls for cls in reported if "title" not in vars(cls)] == []


def test_the_round_trip_through_http_gives_back_the_class(each_case: EachCase) -> None:
    from perdure.worker.web.auth import LOCAL
    from perdure.worker.web.problems import problem

    def check(cls: type[PerdureError]) -> None:
        response = problem(cls("what went wrong"), LOCAL)
        received = httpx2.Response(
            response.status_code, headers=response.headers, content=bytes(response.body)
        )
        with pytest.raises(PerdureError, match="what went wrong") as raised:
            raise_problem(received, "http://server")
        assert type(raised.value) is http_class(cls)

    each_case(cases_of(PUBLIC), check)


def test_over_http_a_refused_user_of_the_state_server_is_a_server_that_is_away() -> None:
    assert http_class(AccessDenied) is StoreUnavailable
    assert (code_of(AccessDenied("x")), code_of(StoreUnavailable("x"))) == (NOT_POSSIBLE, NO_SERVER)


def test_the_exit_code_is_that_of_the_class_or_of_the_failure() -> None:
    assert [code_of(cls.__new__(cls)) for cls in PUBLIC] == [cls.exit_code for cls in PUBLIC]
    assert [code_of(each) for each in (Failed("x"), Failed("x", 3), NoServer("x"))] == [1, 3, 7]
    assert code_of(ValueError("x")) == 1
