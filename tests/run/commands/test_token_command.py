"""``perdure token``: made, printed once, listed, revoked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.worker.cli.commands.token import SCOPES
from perdure.worker.client import Client
from perdure.worker.client.tokens import Tokens
from perdure.worker.domain.token import Scope
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine

Said = tuple[int, str, str]


@pytest.fixture
def token(settings: Settings, tmp_path: Path) -> Callable[..., Said]:
    """``perdure token WORDS``: the exit code, standard output and standard error."""
    perdure = CommandLine(tmp_path, settings)

    def said(*words: str) -> Said:
        done = perdure("token", *words)
        return done.code, done.out, done.err

    return said


def test_a_token_is_printed_by_itself_and_once(token: Callable[..., Said], client: Client) -> None:
    code, out, err = token(
        "create", "ann", "--scope", "read", "--scope", "submit", "--expires", "30d"
    )
    text = out.strip()
    found = Tokens(client).find(text)
    assert (
        code == 0
        and out == f"{text}\n"
        and found is not None
        and "not shown again" in err
        and text not in err
    )
    assert (found.name, found.scopes) == ("ann", {Scope.READ, Scope.SUBMIT})
    assert (
        found.expires_at is not None
        and (found.expires_at - found.created_at).days == 30
        and found.created_by
    )
    for listed in (token("list"), token("list", "--json")):
        assert (
            listed[0] == 0
            and found.id in listed[1]
            and text[20:] not in listed[1] + listed[2]
            and found.digest not in listed[1]
        )


def test_every_word_speaks_json(token: Callable[..., Said]) -> None:
    made = json.loads(token("create", "ci", "--scope", "admin", "--json")[1])
    assert (
        made["token"].startswith(f"hf_{made['id']}_")
        and made["scopes"] == ["admin"]
        and made["expires_at"] is None
    )
    (listed,) = json.loads(token("list", "--json")[1])
    assert {**listed, "token": made["token"]} == made
    assert json.loads(token("sign-out", "--json")[1]) == {"signed_out": True}
    assert json.loads(token("revoke", made["id"], "--json")[1]) == {
        "id": made["id"],
        "revoked": True,
    }
    assert json.loads(token("list", "--json")[1]) == []


def test_a_revoked_token_is_gone_and_the_last_one_leaves_a_warning(
    token: Callable[..., Said], client: Client
) -> None:
    first, last = (token("create", "ann", "--scope", "read")[1].strip() for _ in range(2))
    assert token("revoke", first[3:19]) == (0, f"token {first[3:19]} is revoked\n", "")
    code, _, err = token("revoke", last[3:19])
    assert code == 0 and "may do everything" in err
    assert Tokens(client).find(first) is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create", "ann"), 2, "--scope"),
        (("create", "ann", "--scope", "write"), 2, "write"),
        (("create", "a b", "--scope", "read"), 2, "letters, digits"),
        (("create", "ann", "--scope", "read", "--expires", "soon"), 2, "soon"),
        (("create", "ann", "--scope", "read", "--expires", "0d"), 2, "expires_in"),
        (("revoke", "0" * 16), 3, "perdure token list"),
        (("forge",), 2, "Commands: create, list, revoke, sign-out"),
    ],
)
def test_what_is_not_possible_is_said(
    token: Callable[..., Said], words: tuple[str, ...], code: int, said: str
) -> None:
    ended, out, err = token(*words)
    assert (ended, out) == (code, "") and said in err


def test_a_token_given_where_its_id_belongs_is_not_repeated(token: Callable[..., Said]) -> None:
    text = token("create", "ann", "--scope", "read")[1].strip()
    code, out, err = token("revoke", text)
    assert code == 3 and text[20:] not in out + err


def test_the_scopes_of_the_option_are_those_there_are() -> None:
    assert set(SCOPES) == {scope.value for scope in Scope}
