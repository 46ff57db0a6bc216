"""What a request will cost, before it is made: rather too much than too little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.context import RoundContext
from flows.controllers.model.chat import Usage
from flows.controllers.model.messages import BYTES_A_TOKEN, FRAME, text_of
from flows.extras import FEEDBACK, bytes_of_reply, public

#: Tokens that a reply is taken to have where no limit is set and none has been seen.
REPLY_TOKENS = 2_000
#: Under this name the flow keeps the figures of the last request: what went in, what came out, money, the turns that there were.
LAST = "_model"


def first_estimate(prompt_bytes: int, max_tokens: int | None) -> dict[str, float]:
    """Of a first request: all bytes of the prompt, and as much of a reply as it may have."""
    return _amounts(prompt_bytes / BYTES_A_TOKEN, max_tokens or REPLY_TOKENS, None)


def next_estimate(last: Sequence[Any], context: RoundContext, max_tokens: int | None) -> dict[str, float]:
    """Of a later one: the last one's figures, what has been added since, and twice the last reply."""
    read, wrote, money, turns = last
    added = sum(_bytes_of_turn(turn) for turn in context.history[int(turns) :])
    tokens_in = read + added / BYTES_A_TOKEN
    tokens_out = max(2 * wrote, 200)
    if max_tokens is not None:
        tokens_out = min(tokens_out, max_tokens)
    price = money / (read + wrote) if money is not None and read + wrote else None
    return _amounts(tokens_in, tokens_out, price)


def figures(usage: Usage, context: RoundContext) -> list[float | None]:
    """What is kept of a request, for ``next_estimate``."""
    return [usage.input_tokens, usage.output_tokens, usage.money, len(context.history)]


def _amounts(tokens_in: float, tokens_out: float, price: float | None) -> dict[str, float]:
    read, wrote = round(tokens_in), round(tokens_out)
    amounts: dict[str, float] = {"tokens": read + wrote, "input_tokens": read, "output_tokens": wrote, "requests": 1}
    # A token that is written costs more than one that is read, four times as much with most: the share of the next may be larger.
    return amounts if price is None else {**amounts, "money": price * (read + 2 * wrote)}


def _bytes_of_turn(turn: Any) -> int:
    said = 0
    if turn.command is not None:
        text = text_of({**public(turn.command.extras), "args": dict(turn.command.args)})
        said = len(text.encode("utf-8", "replace")) + bytes_of_reply(turn.command.extras)
        said += len(text_of(turn.command.extras.get(FEEDBACK, "")).encode("utf-8", "replace"))
    return FRAME + said + len(text_of(turn.observation).encode("utf-8", "replace"))
