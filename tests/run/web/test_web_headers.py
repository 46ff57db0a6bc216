"""The headers of every response for browsers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.in_process_server import Site, site_on
from tests.support.redis_servers import CrashableServer

#: Pages, data, files, redirections, and errors of every kind.
ASKED = {
    "/login": 200, "/runs": 200, "/runs/none": 404, "/": 303, "/static/perdure.css": 200, "/static/none": 404, "/none": 404,
    "/metrics": 200, "/api/v1/runs": 200, "/api/v1/runs/none": 404, "/api/v1/none": 404, "/api/v1/runs?limit=x": 422, "/api/v1/health": 200,
    "/api/v1/openapi.json": 200, "/broken": 500,
}  # fmt: skip


@pytest.fixture(scope="module")
def site(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as made:

        def broken() -> None:
            raise ZeroDivisionError("confidential")

        made.app.add_api_route("/broken", broken)
        yield made


@pytest.mark.parametrize("path", ASKED)
def test_every_response_says_what_may_be_done_with_it(site: Site, path: str) -> None:
    site.clear()
    answer = site.asking().get(path)
    assert answer.status_code == ASKED[path] and "confidential" not in answer.text
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert (
        policy["script-src"]
        == policy["style-src"]
        == policy["connect-src"]
        == policy["form-action"]
        == "'self'"
    )
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (
        answer.headers["referrer-policy"]
        == answer.headers["cross-origin-opener-policy"]
        == "same-origin"
    )
    if not path.startswith("/static"):
        assert answer.headers["cache-control"] == "no-store"
    assert (
        "access-control-allow-origin" not in answer.headers
        and "strict-transport-security" not in answer.headers
    )


def test_over_https_browsers_are_told_to_stay_there(site: Site) -> None:
    site.token("root")
    assert (
        "max-age"
        in site.asking(base_url="https://hf.example")
        .get("/api/v1/health")
        .headers["strict-transport-security"]
    )


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, status in ASKED.items()
        if not path.startswith(("/api", "/static", "/metrics", "/broken"))
    ],
)
def test_no_page_has_anything_that_the_policy_forbids(site: Site, path: str) -> None:
    site.clear()
    text = site.asking().get(path).text
    assert not re.search(
        r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*\ssrc=)|<base|hx-on|hx-vals=.js", text
    )


def test_what_browsers_may_keep_sets_no_cookie_and_neither_does_data(site: Site) -> None:
    site.clear()
    assert "set-cookie" in site.asking().get("/login").headers
    for path in ("/static/perdure.css", "/api/v1/runs", "/api/v1/health", "/metrics"):
        assert "set-cookie" not in site.asking().get(path).headers, path
