"""Filled: a form as it was sent, and where its sender goes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Request, Response

from worker.web.pages.page import back

#: Where a form may lead back to, by the word in its field ``back``; an address from outside would lead anywhere.
PLACES = ("runs", "inbox", "fleet", "stuck")


async def _filled(request: Request) -> dict[str, str]:
    form = await request.form()
    return {name: value for name, value in form.items() if isinstance(value, str)}


Filled = Annotated[dict[str, str], Depends(_filled)]


def back_from(request: Request, filled: Mapping[str, str], otherwise: tuple[str, ...], said: str) -> Response:
    """Where the form came from, as far as it says so, and there a sentence on what was done."""
    place = filled.get("back", "")
    return back(request, *((place,) if place in PLACES else otherwise), said=said)
