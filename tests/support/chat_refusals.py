"""Replies of a model that refuses, as its provider streams them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.chat_server import Sends

WORDS = "I'm sorry, but I can't help with that."


def streamed(*choices: dict[str, Any]) -> Sends:
    events = [
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, **each}],
        }
        for each in choices
    ]
    events.append(
        {
            **events[0],
            "choices": [],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
    )
    return Sends(
        "".join(f"data: {json.dumps(each)}\n\n" for each in [*events]).encode()
        + b"data: [DONE]\n\n"
    )


REFUSED = streamed(
    {"delta": {"role": "assistant", "refusal": WORDS}}, {"delta": {}, "finish_reason": "stop"}
)
