"""Secrets by reference: ``env:NAME`` is written down, the secret itself is looked up where it is used, and never told."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote, urlsplit

from flows.errors import FatalError, InvalidFlow

_REFERENCE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
#: Shorter ones are words of any text, and guessed anyway.
SHORTEST = 5
HIDDEN = "[secret]"
#: Variables of the environment that hold secrets, by their names; and how long a value must be to be one, and not a word of any text.
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)
_LONG_ENOUGH = 8
#: The variables that references have named in this process.
_looked_up: set[str] = set()


def is_reference(value: object) -> bool:
    """Whether this says where a secret is found, and is not one."""
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def check_reference(value: object, what: str) -> str:
    """Return a reference; raises InvalidFlow, without showing what came: it may be the secret itself."""
    if not isinstance(value, str) or not is_reference(value):
        raise InvalidFlow(f"{what} should say where the secret is found: env:NAME, the name of an environment variable; never the secret")
    return value


def secret_of(reference: str, what: str) -> str:
    """The secret; raises FatalError if this process has no such variable, or an empty one."""
    name = reference.removeprefix("env:")
    _looked_up.add(name)
    found = os.environ.get(name, "").strip()
    if not found:
        raise FatalError(
            f"{what} is {reference}, and the environment of this worker has no variable {name}; set it, and start the worker again"
        )
    return found


def known_secrets() -> list[str]:
    """Return what this process's environment holds under names of secrets, and under those that references have named."""
    named = [text.strip() for name, text in os.environ.items() if _SECRET_NAME.search(name) and len(text.strip()) >= _LONG_ENOUGH]
    return [*named, *(text for name in list(_looked_up) if (text := os.environ.get(name, "").strip()))]


def secrets_in(url: str | None) -> list[str]:
    """The password and the query's values of a URL."""
    if not url:
        return []
    parts = urlsplit(url)
    password = parts.password or ""
    return [text for text in (password, unquote(password), *(value for _, value in parse_qsl(parts.query))) if text]


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, as they are and as a JSON text or a ``repr`` would show them."""
    for secret in sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True):
        for shape in {secret, repr(secret)[1:-1], secret.replace("/", "\\/")}:
            text = text.replace(shape, HIDDEN)
    return text
