"""The dashboard's cookie: who gets one, its rights, its lifetime, and the limits of another site's
requests with it.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from perdure import InvalidInput
from perdure.worker.domain.token import Scope, digest_of
from perdure.worker.store.tables import SignInCodes
from perdure.worker.web.auth.sessions import AGE, WebSession, WebSessions
from perdure.worker.web.json_body import most_bytes
from tests.support.in_process_server import Site, csrf_of, site_on
from tests.support.redis_servers import CrashableServer

LOGIN = "/login?next=%2Fruns"


@pytest.fixture(scope="module")
def shared(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as site:
        yield site


@pytest.fixture
def site(shared: Site) -> Site:
    """One with a token."""
    shared.clear()
    shared.token("root", "admin")
    return shared


def is_in(browser: TestClient) -> bool:
    """Return whether the browser is signed in."""
    answer = browser.get("/runs")
    assert answer.status_code == 200 or (answer.status_code, answer.headers["location"]) == (
        303,
        LOGIN,
    )
    return answer.status_code == 200


def cookie_of(browser: TestClient, name: str = "perdure") -> str:
    value = browser.cookies.get(name)
    assert value is not None
    return value


def with_cookie(site: Site, cookie: str) -> TestClient:
    return site.asking(cookie=f"perdure={cookie}")


def test_who_has_a_token_signs_in_and_is_led_to_where_they_wanted_to_go(site: Site) -> None:
    browser = site.asking()
    assert browser.get("/runs").headers["location"] == LOGIN
    answer = browser.post(
        "/login",
        data={
            "csrf": csrf_of(browser, LOGIN),
            "token": f" {site.token('ann', 'read')}\n",
            "next": "/runs",
        },
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs")
    assert is_in(browser) and "Sign out" in browser.get("/runs").text


def test_who_has_none_does_not(site: Site) -> None:
    good = site.token("ann", "read")
    revoked = site.token("ann", "read")
    site.tokens.revoke(revoked[3:19])
    browser = site.asking()
    for token in ("", "x", good[:-1], revoked, good[3:19]):
        answer = browser.post("/login", data={"csrf": csrf_of(browser), "token": token})
        assert answer.status_code == 401 and "unknown, revoked or expired" in answer.text
        assert (token not in answer.text) if len(token) > 20 else True
        assert not is_in(browser)


def test_the_cookie_is_for_this_server_alone_and_no_script_reads_it(site: Site) -> None:
    token = site.token("ann", "read")
    browser = site.asking()
    answer = browser.post("/login", data={"csrf": csrf_of(browser), "token": token})
    name, *flags = answer.headers["set-cookie"].split("; ")
    assert name.startswith("perdure=") and sorted(flags) == [
        "HttpOnly",
        f"Max-Age={AGE}",
        "Path=/",
        "SameSite=lax",
    ]
    assert "strict-transport-security" not in answer.headers
    payload = cookie_of(browser).split(".")[0]
    told = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)).decode()
    assert token[3:19] in told and token[20:] not in told, "the id of the token, never its secret"


def test_behind_an_encrypting_proxy_the_cookie_is_sent_encrypted_only(site: Site) -> None:
    behind = ProxyHeadersMiddleware(
        site.app, trusted_hosts="*"
    )  # as uvicorn has it, for proxies on this machine
    browser = site.asking(app=behind, base_url="http://hf.example", x_forwarded_proto="https")
    token = site.token("ann", "read")
    page = browser.get("/login")
    name, *flags = page.headers["set-cookie"].split("; ")
    assert (
        name.startswith("__Host-perdure=")
        and "Secure" in flags
        and page.headers["strict-transport-security"]
    )
    headers = {"cookie": name}
    csrf = page.text.partition('name="csrf" value="')[2].partition('"')[0]
    signed_in = (
        browser.post("/login", data={"csrf": csrf, "token": token}, headers=headers)
        .headers["set-cookie"]
        .split("; ")
    )
    assert "Secure" in signed_in
    assert browser.get("/runs", headers={"cookie": signed_in[0]}).status_code == 200
    plain = signed_in[0].replace("__Host-", "")
    assert browser.get("/runs", headers={"cookie": plain}).status_code == 303, (
        "one that was set over http, by whomever, is not taken"
    )


def test_a_cookie_that_was_changed_in_any_place_is_worthless(site: Site) -> None:
    cookie = cookie_of(site.signed_in(site.token("ann", "read")))
    assert is_in(with_cookie(site, cookie))
    for place, letter in enumerate(cookie):
        if letter == "." or place % 3:
            continue
        other = "A" if letter != "A" else "B"
        # The last character of each part holds bits that mean nothing.
        if cookie[place + 1 : place + 2] not in ("", "."):
            assert not is_in(with_cookie(site, cookie[:place] + other + cookie[place + 1 :])), place
    payload, signature = cookie.split(".")
    for forged in (
        "",
        ".",
        payload,
        f"{payload}.",
        f".{signature}",
        "é",
        "x" * 5000,
        f"{signature}.{payload}",
    ):
        assert not is_in(with_cookie(site, forged)), forged


def test_a_cookie_that_another_key_has_signed_is_worthless(site: Site) -> None:
    token = site.token("ann", "admin")
    session = WebSession.new(site.authenticator._clock(), token[3:19])
    assert is_in(with_cookie(site, WebSessions(site.tokens.signing_key()).signed(session)))
    assert not is_in(with_cookie(site, WebSessions("x" * 43).signed(session)))


def test_after_its_time_one_has_to_sign_in_again(site: Site) -> None:
    browser = site.signed_in(site.token("ann", "read"))
    begun = WebSessions(site.tokens.signing_key()).read(
        cookie_of(browser), site.authenticator._clock()
    )
    assert begun is not None
    cookie = cookie_of(browser)
    for seconds, good in ((0, True), (AGE - 1, True), (AGE, False), (-1, False)):
        site.authenticator._clock = lambda seconds=seconds: begun.begun + seconds
        assert is_in(with_cookie(site, cookie)) is good, seconds


def test_who_is_signed_in_with_a_token_that_is_revoked_is_signed_out(site: Site) -> None:
    token = site.token("ann", "read")
    browser = site.signed_in(token)
    assert is_in(browser)
    site.tokens.revoke(token[3:19])
    assert not is_in(browser)


def test_signing_out_ends_it_in_this_browser_and_elsewhere_for_everybody(site: Site) -> None:
    token = site.token("ann", "read")
    here, there = site.signed_in(token), site.signed_in(token)
    answer = here.post("/logout", data={"csrf": csrf_of(here, "/runs")})
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/login",
    ) and "Max-Age=0" in answer.headers["set-cookie"]
    assert not is_in(here) and is_in(there)
    site.tokens.sign_everybody_out()
    assert not is_in(there)


def test_signing_in_begins_a_session_that_nobody_could_have_prepared(site: Site) -> None:
    browser = site.asking()
    before = csrf_of(browser)
    prepared = cookie_of(browser)
    browser.post("/login", data={"csrf": before, "token": site.token("ann", "read")})
    assert cookie_of(browser) != prepared and csrf_of(browser) != before
    assert not is_in(with_cookie(site, prepared))


def test_nobody_is_led_to_another_server_after_signing_in(site: Site) -> None:
    token = site.token("ann", "read")
    for elsewhere in (
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "evil",
        "/\tx",
        "javascript:alert(1)",
        "",
    ):
        browser = site.asking()
        answer = browser.post(
            "/login", data={"csrf": csrf_of(browser), "token": token, "next": elsewhere}
        )
        assert (answer.status_code, answer.headers["location"]) == (303, "/"), elsewhere


def test_nobody_is_signed_in_by_a_form_of_another_site(site: Site) -> None:
    """With the attacker's own token: the victim's next input would be his."""
    token = site.token("eve", "admin")
    for headers in ({}, {"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        browser = site.asking()
        answer = browser.post("/login", data={"token": token}, headers=headers)
        assert answer.status_code in (303, 403) and answer.headers.get("location") in (
            None,
            "/login",
        )
        assert not is_in(browser)


def test_a_form_that_is_too_large_is_not_read_to_its_end(site: Site) -> None:
    form = "token=" + "x" * most_bytes(site.client.settings)
    answer = site.asking().post(
        "/login", content=form, headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert answer.status_code == 413


# Requests of a browser made by another site.


def change(browser: TestClient, csrf: str | None = None, **headers: str) -> int:
    """Send a form that changes something; return the status."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = browser.post(
        "/theme", data={"theme": "dark"} | ({} if csrf is None else {"csrf": csrf}), headers=given
    )
    assert ("perdure_theme" in answer.headers.get("set-cookie", "")) is (
        answer.status_code == 303
    ), "it was done, or refused"
    return answer.status_code


def test_a_form_without_what_our_pages_carry_changes_nothing(site: Site) -> None:
    token = site.token("ann", "read")
    browser, other = site.signed_in(token), site.signed_in(token)
    mine = csrf_of(browser, "/runs")
    assert change(browser, mine) == 303
    assert change(browser, x_csrf_token=mine) == 303, "as a script of ours sends it"
    for wrong in (
        None,
        "",
        "x",
        mine[:-1],
        mine.upper(),
        mine + "0",
        csrf_of(other, "/runs"),
        csrf_of(site.asking()),
        "é",
    ):
        assert change(browser, wrong) == 403, wrong
    assert change(browser, mine, x_csrf_token="x") == 403, (
        "one that is wrong is not made good by another"
    )


def test_what_was_given_to_a_form_before_signing_in_is_no_longer_good(site: Site) -> None:
    browser = site.asking()
    before = csrf_of(browser)
    browser.post("/login", data={"csrf": before, "token": site.token("ann", "read")})
    assert change(browser, before) == 403


def test_a_page_of_another_site_changes_nothing_even_if_it_knew_everything(site: Site) -> None:
    browser = site.signed_in(site.token("ann", "read"))
    csrf = csrf_of(browser, "/runs")
    for elsewhere in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost.evil.example"},
        {"origin": "http://localhost:81"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "origin": "http://localhost"},
    ):
        assert change(browser, csrf, **elsewhere) == 403, elsewhere
    assert change(browser, csrf, origin="http://localhost") == 303
    assert change(browser, csrf, sec_fetch_site="same-origin", origin="http://localhost") == 303
    assert (
        change(browser, csrf, sec_fetch_site="same-origin", origin="https://hf.example") == 303
    ), "behind a proxy that renames the host"


def test_a_proxys_own_login_does_not_open_a_way_round_what_forms_carry(site: Site) -> None:
    """A browser sends Basic credentials by itself, from any form."""
    browser = site.signed_in(site.token("ann", "read"))
    assert change(browser, authorization="Basic YW5uOng=") == 403
    assert change(browser, csrf_of(browser, "/runs"), authorization="Basic YW5uOng=") == 303


def test_who_shows_a_token_is_nobody_else_and_needs_nothing_more(site: Site) -> None:
    token = site.token("bob", "read")
    browser = site.signed_in(site.token("ann", "read"))
    assert change(browser, authorization=f"Bearer {token}") == 303
    assert browser.get("/runs", headers={"authorization": "Bearer x"}).status_code == 303, (
        "a bad one is not made good by a cookie"
    )
    assert "bob" in browser.get("/runs", headers={"authorization": f"bearer  {token}"}).text


def test_who_is_no_longer_signed_in_is_asked_to_and_not_blamed(site: Site) -> None:
    browser = site.signed_in(site.token("ann", "read"))
    csrf = csrf_of(browser, "/runs")
    site.tokens.sign_everybody_out()
    answer = browser.post("/theme", data={"theme": "dark", "csrf": csrf})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")


def test_no_secret_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = site.token("ann", "read")
    browser = site.signed_in(token)
    is_in(browser)
    site.tokens._store.redis.hset(site.tokens._store.keys.tokens, token[3:19], "{")
    assert site.asking(token).get("/metrics").status_code == 401
    assert "cannot be read" in caplog.text
    assert (
        token[20:] not in caplog.text
        and site.tokens.signing_key() not in caplog.text
        and cookie_of(browser) not in caplog.text
    )


@pytest.mark.parametrize(
    ("scopes", "status"),
    [
        (("admin",), 401),
        (("read", "submit", "answer", "stop", "signal"), 401),
        (("read", "answer", "sign-in"), 303),
    ],
)
def test_a_code_signs_in_only_with_a_token_that_has_the_right(
    site: Site, scopes: tuple[str, ...], status: int
) -> None:
    """A worker's login writes such codes, for the id of any token."""
    token = site.tokens.create("ann", scopes).token
    SignInCodes(site.client._store).put(digest_of("made up"), token.id, 60_000)
    browser = site.asking()
    form = {"code": "made up", "next": "/runs", "csrf": csrf_of(browser)}
    answer = browser.post("/sign-in", data=form)
    assert answer.status_code == status
    assert is_in(browser) is (status == 303)
    assert status == 303 or "scope &#39;sign-in&#39;" in answer.text


def test_a_stored_token_with_admin_and_the_right_is_no_way_in_for_links(site: Site) -> None:
    with pytest.raises(InvalidInput, match="cannot have the scope sign-in"):
        site.tokens.create("ann", ["admin", "sign-in"])
    token = site.tokens.create("ann", ["admin"]).token
    forged = replace(token, scopes=frozenset({Scope.ADMIN, Scope.SIGN_IN}))
    site.tokens._records.put(token.id, forged.kept())
    SignInCodes(site.client._store).put(digest_of("made up"), token.id, 60_000)
    browser = site.asking()
    form = {"code": "made up", "next": "/runs", "csrf": csrf_of(browser)}
    assert browser.post("/sign-in", data=form).status_code == 401
    assert not is_in(browser)
