"""References to secrets.

The reference ``env:NAME`` is stored. The secret itself is read where it is used, and is never
shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote, urlsplit

from perdure.flows.core.errors import FatalError, InvalidFlow

_REFERENCE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
#: Minimum length of a secret that is removed from texts. Shorter ones are common words, and easy to
#: guess anyway.
SHORTEST = 5
HIDDEN = "[secret]"
#: Names of environment variables that hold secrets, and the minimum length of a value that is a
#: secret and not a common word.
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)
_LONG_ENOUGH = 8
#: The environment variables that references have named in this process.
_looked_up: set[str] = set()


def is_reference(value: object) -> bool:
    """Return whether a value is a secret's reference (``env:NAME``)."""
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def check_reference(value: object, what: str) -> str:
    """Validate a secret's reference (``env:NAME``). Return it unchanged.

    Args:
        what: the setting, for the error.

    Raises:
        InvalidFlow: ``value`` is no reference. The message does not show the value, because it may
            be the secret itself.
    """
    if not isinstance(value, str) or not is_reference(value):
        raise InvalidFlow(
            f"{what} should say where the secret is found: env:NAME, "
            "the name of an environment variable; never the secret"
        )
    return value


def secret_of(reference: str, what: str) -> str:
    """Return the secret that a reference (``env:NAME``) names, from this process's environment.

    Args:
        what: the setting, for the error.

    Raises:
        FatalError: this process has no such variable, or it is empty.
    """
    name = reference.removeprefix("env:")
    _looked_up.add(name)
    secret = os.environ.get(name, "").strip()
    if not secret:
        raise FatalError(
            f"{what} is {reference}, and the environment of this worker has no variable {name}, "
            "or an empty one; set it and restart the worker"
        )
    return secret


def known_secrets() -> list[str]:
    """Return the secrets in this process's environment.

    A variable holds a secret if its name contains a word like TOKEN or PASSWORD and its value is
    not short. So does each variable that ``secret_of`` has read.
    """
    named = [
        text.strip()
        for name, text in os.environ.items()
        if _SECRET_NAME.search(name) and len(text.strip()) >= _LONG_ENOUGH
    ]
    return [
        *named,
        *(text for name in list(_looked_up) if (text := os.environ.get(name, "").strip())),
    ]


def secrets_in(url: str | None) -> list[str]:
    """Return a URL's password (as written and decoded) and the values of its query.

    The list is empty if ``url`` is None.
    """
    if not url:
        return []
    parts = urlsplit(url)
    password = parts.password or ""
    return [
        text
        for text in (password, unquote(password), *(value for _, value in parse_qsl(parts.query)))
        if text
    ]


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which ``[secret]`` replaces the secrets.

    A secret is found as it is, and in the form in which JSON or ``repr`` shows it. Secrets of fewer
    than ``SHORTEST`` characters are not replaced.
    """
    for secret in sorted(
        {secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True
    ):
        for shape in {secret, repr(secret)[1:-1], secret.replace("/", "\\/")}:
            text = text.replace(shape, HIDDEN)
    return text
