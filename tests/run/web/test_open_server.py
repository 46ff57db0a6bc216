"""A server without tokens: who gets in, under which name, and the requests that other sites can
make a browser send.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from perdure.worker.web import Caller, Scope
from perdure.worker.web.auth.origin import is_loopback
from tests.support.in_process_server import Site, csrf_of, site_on
from tests.support.redis_servers import CrashableServer

GOOD = {
    "localhost",
    "localhost:8787",
    "LOCALHOST",
    "127.0.0.1",
    "127.0.0.1:1",
    "[::1]",
    "[::1]:8787",
    "127.1.2.3",
    "localhost.",
}
BAD = {
    "evil.example", "evil.example:8787", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "0.0.0.0", "", "[",
    "127.0.0.1@evil.example", "evil.example#localhost", "[::ffff:10.0.0.1]",
}  # fmt: skip


@pytest.fixture(scope="module")
def shared(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as site:
        yield site


@pytest.fixture
def site(shared: Site) -> Site:
    """One without tokens."""
    shared.clear()
    return shared


def asked(who: TestClient, method: str = "GET", **headers: str) -> int:
    return who.request(
        method,
        "/metrics" if method == "GET" else "/theme",
        headers={k.replace("_", "-"): v for k, v in headers.items()},
    ).status_code


def test_whoever_is_on_this_machine_may_do_everything(site: Site) -> None:
    answer = site.asking().get("/runs")
    assert (
        answer.status_code == 200
        and "Everyone on this machine" in answer.text
        and "Sign out" not in answer.text
    )


@pytest.mark.parametrize("host", sorted(GOOD | BAD))
def test_it_answers_to_this_machines_own_names_alone(site: Site, host: str) -> None:
    answer = site.asking(host=host).get("/metrics")
    assert answer.status_code == (200 if host in GOOD else 403)
    assert host in GOOD or "no tokens" in answer.text


@pytest.mark.parametrize(
    "address",
    ["10.0.0.7", "192.168.1.2", "2001:db8::1", "0.0.0.0", "/run/perdure.sock", "::ffff:10.0.0.7"],
)
def test_who_does_not_come_over_loopback_is_asked_for_a_token_however_he_calls_it(
    site: Site, address: str
) -> None:
    base = (
        f"http://[{address}]"
        if ":" in address
        else f"http://{address.replace('/', '.').strip('.')}"
    )
    assert site.asking(base_url=base, host="localhost").get("/metrics").status_code == 401


@pytest.mark.parametrize(
    "header", ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"]
)
def test_who_comes_through_a_proxy_is_asked_for_a_token(site: Site, header: str) -> None:
    assert site.asking().get("/metrics", headers={header: "127.0.0.1"}).status_code == 401


def test_the_first_token_closes_it_at_the_next_request_and_the_last_one_that_goes_opens_it(
    site: Site,
) -> None:
    who = site.asking()
    assert asked(who) == 200
    token = site.token("ann", "read")
    assert asked(who) == 401
    assert asked(site.asking(token)) == 200
    site.tokens.revoke(token[3:19])
    assert asked(who) == 200


def test_it_is_never_open_where_whoever_starts_it_says_so(site: Site) -> None:
    assert asked(Site(site.client, open_on_loopback=False).asking()) == 401


def test_a_token_that_is_no_good_is_refused_there_too(site: Site) -> None:
    assert asked(site.asking("hf_0123456789abcdef_" + "x" * 43)) == 401


def test_a_program_needs_nothing(site: Site) -> None:
    assert asked(site.asking(), "POST") == 303
    assert asked(site.asking(), "POST", content_type="application/json") == 303


@pytest.mark.parametrize(
    "mark",
    [
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "text/plain; charset=utf-8"},
        {"content_type": "Multipart/Form-Data; boundary=x"},
        {"cookie": "theme=dark"},
        {"origin": "http://localhost"},
        {"referer": "http://localhost/runs"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_mode": "navigate"},
    ],
)
def test_what_a_browser_may_have_sent_carries_what_only_our_pages_know(
    site: Site, mark: dict[str, str]
) -> None:
    assert asked(site.asking(), "POST", **mark) in (400, 403)
    browser = site.asking()
    csrf = csrf_of(browser)
    if "cookie" not in mark:
        assert asked(browser, "POST", x_csrf_token=csrf, **mark) in (303, 400, 422)


def test_a_program_on_node_needs_nothing(site: Site) -> None:
    node = {"sec_fetch_mode": "cors", "accept_language": "*", "user_agent": "node"}
    assert asked(site.asking(), "POST", content_type="application/json", **node) == 303


@pytest.mark.parametrize(
    "browser",
    [
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "cross-site"},
        {"origin": "http://localhost"},
        {"origin": "https://evil.example"},
        {"content_type": "text/plain"},
        {"cookie": "theme=dark"},
    ],
)
def test_a_browser_that_asks_as_node_does_is_still_refused(
    site: Site, browser: dict[str, str]
) -> None:
    headers = {"content_type": "application/json", "sec_fetch_mode": "cors", **browser}
    assert asked(site.asking(), "POST", **headers) in (400, 403)


@pytest.mark.parametrize(
    "elsewhere",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}],
)
def test_a_page_of_another_site_changes_nothing(site: Site, elsewhere: dict[str, str]) -> None:
    browser = site.asking()
    csrf = csrf_of(browser)
    assert asked(browser, "POST", x_csrf_token=csrf) == 303
    assert asked(browser, "POST", x_csrf_token=csrf, **elsewhere) == 403
    assert asked(browser, **elsewhere) == 200, (
        "looking changes nothing, and no other site can read what it is shown"
    )


def test_what_one_browsers_pages_carry_is_no_good_in_another(site: Site) -> None:
    mine, theirs = site.asking(), site.asking()
    theirs.get("/login")
    assert asked(theirs, "POST", x_csrf_token=csrf_of(mine)) == 403


def test_an_app_of_ones_own_says_who_asks(site: Site) -> None:
    site = Site(
        site.client,
        caller=lambda request: Caller(request.headers["x-user"], frozenset({Scope.READ})),
    )
    assert "mia" in site.asking(x_user="mia", base_url="http://hf.example").get("/runs").text
    assert asked(site.asking(x_user="mia"), "POST", origin="https://evil.example") == 403
    browser = site.asking(x_user="mia")
    assert asked(browser, "POST", x_csrf_token=csrf_of(browser)) == 303


def test_loopback_is_told_from_everything_else() -> None:
    good = ("localhost", "127.0.0.1", "127.255.0.9", "::1", "[::1]", "::ffff:127.0.0.1")
    assert all(map(is_loopback, good))
    assert not any(
        map(
            is_loopback,
            (
                "",
                "0.0.0.0",
                "::",
                "10.0.0.1",
                "128.0.0.1",
                "example.org",
                "127.1",
                "2130706433",
                "::ffff:10.0.0.1",
            ),
        )
    )
