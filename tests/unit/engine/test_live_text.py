"""All text of a round is written before its commit, also text that another thread is just writing."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from perdure.worker.engine.live_text import LiveTexts, RoundText
from perdure.worker.store.fence import Fence


class SlowRecords:
    """Records that take in text only once they are let."""

    def __init__(self) -> None:
        self.begun, self.let = threading.Event(), threading.Event()
        self.texts: list[str] = []

    def append(self, _: Fence, __: int, ___: int, entries: list[dict[str, Any]]) -> bool:
        self.begun.set()
        assert self.let.wait(20)
        self.texts += [str(entry["text"]) for entry in entries]
        return True


def test_the_end_of_a_round_waits_for_what_is_being_written() -> None:
    store: Any = SimpleNamespace()
    texts = LiveTexts(store)
    records: Any = SlowRecords()
    texts.records = records
    text = RoundText(texts, Fence("r", "1", "claim"), 0, 1)
    text.write("a", "text", "")
    assert records.begun.wait(20), "the other thread writes"
    seen: list[list[str]] = []
    ending = threading.Thread(target=lambda: (text.end(), seen.append(list(records.texts))))
    ending.start()
    ending.join(0.2)
    assert ending.is_alive() and not seen, "it waits"
    records.let.set()
    ending.join(20)
    assert seen == [["a"]]
