"""Tokens: their stored fields, their lookup, and their end."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest

from perdure import Client, InvalidInput
from perdure.worker.client.tokens import LONGEST, Tokens
from perdure.worker.domain.token import AccessToken, Scope
from perdure.worker.errors import DamagedRun, DamagedToken, TokenNotFound
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support.redis_servers import CrashableServer
from tests.support.runs import everything, later


@pytest.fixture
def client(any_server: CrashableServer, prefix: str, store: Store) -> Client:
    """A client whose server's clock is the store's."""
    made = Client(settings=Settings(redis_url=any_server.url, prefix=prefix))
    made._session.store.close()
    made._session.store = store
    return made


@pytest.fixture
def tokens(client: Client) -> Tokens:
    return Tokens(client)


def test_a_token_is_found_by_what_was_printed_and_by_nothing_else(tokens: Tokens) -> None:
    made = tokens.create("ann", ["read", Scope.SUBMIT], created_by="root")
    assert tokens.find(made.text) == made.token == tokens.get(made.token.id)
    assert (made.token.name, made.token.scopes, made.token.created_by) == (
        "ann",
        {Scope.READ, Scope.SUBMIT},
        "root",
    )
    head, secret = made.text[:20], made.text[20:]
    assert head == f"hf_{made.token.id}_" and len(secret) == 43
    other = tokens.create("ann", ["read"])
    wrong = (
        secret[:-1] + ("A" if secret[-1] != "A" else "B"),
        secret[:-1],
        secret + "A",
        secret.swapcase(),
        other.text[20:],
        made.token.digest,
    )
    for text in (
        "",
        "hf_",
        secret,
        *(head + each for each in (*wrong, "", "é" * 43)),
        made.text + "\n",
        made.text.upper(),
        "hf_" + "0" * 16 + made.text[19:],
    ):
        assert tokens.find(text) is None, text


def test_two_tokens_have_nothing_in_common(tokens: Tokens) -> None:
    texts = {tokens.create("ann", ["read"]).text for _ in range(20)}
    assert len({text[3:19] for text in texts}) == len({text[20:] for text in texts}) == 20


def test_the_secret_is_kept_nowhere_but_as_a_digest(tokens: Tokens, store: Store) -> None:
    made = tokens.create("ann", ["read"])
    secret = made.text[20:]
    kept = str(everything(store))
    assert secret not in kept and hashlib.sha256(secret.encode()).hexdigest() in kept
    shown = (made, made.token, tokens.all(), made.token.to_dict(), tokens.get(made.token.id))
    assert not [each for each in shown if secret in repr(each) or made.token.digest in repr(each)]


def test_from_its_last_moment_on_a_token_opens_nothing(tokens: Tokens, store: Store) -> None:
    made = tokens.create("ann", ["read"], timedelta(hours=1))
    later(store, 3_600_000 - 1)
    assert tokens.find(made.text) is not None
    later(store, 1)
    assert tokens.find(made.text) is None and tokens.get(made.token.id) is None
    assert [token.id for token in tokens.all()] == [made.token.id] and tokens.any(), (
        "it is still there to be seen, and the server stays shut"
    )


def test_a_revoked_token_opens_nothing(tokens: Tokens) -> None:
    made, stays = tokens.create("ann", ["read"]), tokens.create("bob", ["stop"])
    tokens.revoke(made.token.id)
    assert tokens.find(made.text) is None and tokens.get(made.token.id) is None
    assert tokens.all() == [stays.token] and tokens.find(stays.text) == stays.token
    for unknown in (made.token.id, made.text, "", "*"):
        with pytest.raises(TokenNotFound) as told:
            tokens.revoke(unknown)
        assert made.text[20:] not in str(told.value)


def test_tokens_are_listed_oldest_first(tokens: Tokens, store: Store) -> None:
    names = []
    for name in ("zoe", "ann", "mia"):
        names.append(tokens.create(name, ["read"]).token.name)
        later(store, 10)
    assert [token.name for token in tokens.all()] == names


@pytest.mark.parametrize(
    ("name", "scopes", "given"),
    [
        ("", ["read"], {}),
        ("a/b", ["read"], {}),
        (None, ["read"], {}),
        (7, ["read"], {}),
        ("ann", [], {}),
        ("ann", ["write"], {}),
        ("ann", [None], {}),
        ("ann", ["read"], {"expires_in": timedelta(0)}),
        ("ann", ["read"], {"expires_in": LONGEST + timedelta(1)}),
        ("ann", ["read"], {"created_by": 7}),
    ],
)
def test_what_cannot_be_a_token_is_refused_and_stores_nothing(
    tokens: Tokens, store: Store, name: Any, scopes: Any, given: Any
) -> None:
    with pytest.raises(InvalidInput):
        tokens.create(name, scopes, **given)
    assert not store.redis.exists(store.keys.tokens)


@pytest.mark.parametrize(
    "record",
    ["", "[]", "{}", '{"name": "ann", "scopes": ["write"], "digest": "d", "created_at": "x"}'],
)
def test_a_damaged_record_opens_nothing_and_can_be_removed(
    tokens: Tokens, store: Store, record: str
) -> None:
    made = tokens.create("ann", ["read"])
    store.redis.hset(store.keys.tokens, made.token.id, record)
    for look in (lambda: tokens.find(made.text), lambda: tokens.get(made.token.id), tokens.all):
        with pytest.raises(DamagedToken, match=f"perdure token revoke {made.token.id}"):
            look()
    tokens.revoke(made.token.id)
    assert tokens.all() == []


def test_a_key_of_another_type_lets_nobody_in(tokens: Tokens, store: Store) -> None:
    made = tokens.create("ann", ["read"])
    store.redis.set(store.keys.tokens, "x")
    assert tokens.any(), "whatever is there, the server is not open"
    with pytest.raises(DamagedRun, match="wrong type"):
        tokens.find(made.text)


def test_all_servers_sign_with_one_key_until_everybody_is_signed_out(
    client: Client, any_server: CrashableServer
) -> None:
    mine, theirs = Tokens(client), Tokens(Client(settings=client.settings))
    key = mine.signing_key()
    assert theirs.signing_key() == key == mine.signing_key() and len(key) == 43
    theirs.sign_everybody_out()
    assert mine.signing_key() == theirs.signing_key() != key
    theirs._store.close()


def test_a_record_reads_back_as_it_was_kept(tokens: Tokens) -> None:
    token = tokens.create("ann", ["admin"], timedelta(days=3), "root").token
    assert AccessToken.of(token.id, token.kept()) == token
