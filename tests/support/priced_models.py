"""Models with prices, whose replies come in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure import Settings
from tests.support.chat_server import Asked, ChatServer, Play, Says, chat_server
from tests.support.round_driver import Driver, driving

FLOW = "choosing_model"
#: Rounds of the long run's controller, and replies that its window holds.
REPLIES, LAST = 40, 8


class InOrder(Play):
    """A conversation whose replies follow the number of requests, since the window leaves out some
    of the answers.
    """

    def reply_to(self, asked: Asked) -> Says:
        return self.script[min(len(self.asked), len(self.script)) - 1]


ADDS = [
    Says(f"Number {number}.", [("add", {"a": number, "b": 1})], (100 + number, 10), cached=90)
    for number in range(REPLIES)
]
FINISH = Says("", [("finish", {"answer": 1})])


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with chat_server([FINISH]) as running:
        yield running


@pytest.fixture
def driver(settings: Settings, chat: ChatServer) -> Iterator[Driver]:
    with driving(settings.model_copy(update={"model_url": chat.url})) as made:
        yield made
