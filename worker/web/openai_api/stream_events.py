"""Translation of a run's stream into events of OpenAI's responses.

Each text that a round shows is an item of the response: a message, or reasoning. The item is done
when the round is committed. OpenAI's protocol cannot retract text. So if an attempt is given up,
its item ends as incomplete, and the next attempt begins a new item. The response document in the
last event has only the run's answer as its output.

The number of an event encodes its time, not its position. So any server process finds the events
after a number, even if older text of the run has been deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perdure.worker.domain.event import TRIMMED, position_of
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.domain.stream import RETRACTED, TEXT, StreamItem
from perdure.worker.web.exposed_flows import answer_text
from perdure.worker.web.openai_api.documents import (
    message_item,
    question_call,
    response_document,
    text_part,
)

#: Maximum events made from one entry of a run's stream, and maximum entries of one millisecond. The
#: rest of a number is the time: with ten years it stays below the 2**53 that JSON's readers keep
#: exact.
MOST_DERIVED, MOST_IN_A_MS = 32, 64
#: Kinds of text that are shown, with the type of their item.
ITEM_TYPES = {"text": "message", "thinking": "reasoning"}

StreamEvent = dict[str, Any]


@dataclass
class ShownItem:
    """An item of the response whose text still grows.

    Attributes:
        id: The item's id.
        type: ``message`` or ``reasoning``.
        index: The item's position in the response's output.
        step: The step of the round that shows the text.
        text: The text so far.
    """

    id: str
    type: str
    index: int
    step: int
    text: str = ""

    @property
    def part(self) -> dict[str, Any]:
        """The text so far, in OpenAI's JSON form."""
        if self.type == "message":
            return text_part(self.text)
        return {"type": "reasoning_text", "text": self.text}

    def document(self, status: str) -> dict[str, Any]:
        """Return the item in OpenAI's JSON form. With status ``in_progress``, it has no text."""
        parts = [] if status == "in_progress" else [self.part]
        if self.type == "message":
            return message_item(self.id, "", status) | {"content": parts}
        return {
            "id": self.id,
            "type": "reasoning",
            "summary": [],
            "content": parts,
            "status": status,
        }


class ResponseEvents:
    """The translation of one run's stream into numbered events.

    All items of the stream must be translated, from the first one. Events that the client already
    has are left out of the results.

    Args:
        run: The current state of the run.
        after: Number of the last event that the client has. None: the client has no event.
    """

    def __init__(self, run: Run, after: int | None = None) -> None:
        self._run = run
        self._after = -1 if after is None else after
        self._began_ms = round(run.created_at.timestamp() * 1000)
        self._number = -1
        self._next_index = 0
        self._open: dict[tuple[int, int, str, str], ShownItem] = {}
        self._last_message: ShownItem | None = None
        #: Steps and attempts of whose text a part is gone.
        self._trimmed: set[tuple[int, int]] = set()

    def begin(self) -> list[StreamEvent]:
        """Return the first two events of a streamed response."""
        document = response_document(self._run, None) | {
            "status": "in_progress",
            "output": [],
            "error": None,
            "incomplete_details": None,
            "usage": None,
        }
        return self._wanted(
            {"type": f"response.{name}", "response": document}
            for name in ("created", "in_progress")
        )

    def translate(self, item: StreamItem) -> list[StreamEvent]:
        """Return the events for the next item of the run's stream. Many items have no events."""
        self._move_to(item)
        match item.type:
            case "text":
                return self._wanted(self._text(item))
            case "retracted":
                return self._wanted(self._close(item.step, "incomplete"))
            case "trimmed":
                # A part of its text is missing, so none of its items can be complete.
                self._trimmed.add((item.step, item.attempt))
                return self._wanted(self._close(item.step, "incomplete"))
            case "committed":
                return self._wanted(self._close(item.step, "completed"))
            case "interrupted":
                # The index of the run's question, which is no item once it is answered.
                self._next_index += 1
        return []

    def finish(self, run: Run, waiting: PendingInterrupt | None = None) -> list[StreamEvent]:
        """Return the events that end a streamed response.

        Args:
            run: The current state of the run.
            waiting: The open question of the run or of a run below it. The response then ends as
                incomplete. None: no question is open.
        """
        document = response_document(run, waiting)
        return self._wanted(
            [
                *self._close(None, "incomplete"),
                *self._answer(run),
                *self._question(run, waiting),
                {"type": f"response.{_ending(document['status'])}", "response": document},
            ]
        )

    def _move_to(self, item: StreamItem) -> None:
        """Advance the event number to an item's time. Numbers never decrease."""
        if item.type in (RETRACTED, TRIMMED):
            return  # Its id is the position of another item.
        event, _, text = item.id.partition("/")
        ms, number = position_of(text if item.type == TEXT else event)
        place = (max(ms - self._began_ms, 0) * MOST_IN_A_MS + min(number, MOST_IN_A_MS - 1)) * 2 + (
            item.type != TEXT
        )
        # 0 and 1 are the numbers of the events at the beginning.
        self._number = max(self._number, place * MOST_DERIVED + 1)

    def _wanted(self, events: Any) -> list[StreamEvent]:
        """Give events their numbers, and return the events that the client lacks."""
        wanted = []
        for event in events:
            self._number += 1
            if self._number > self._after:
                wanted.append({**event, "sequence_number": self._number})
        return wanted

    def _text(self, item: StreamItem) -> Iterator[StreamEvent]:
        kind = ITEM_TYPES.get(item.kind)
        if kind is None:
            return
        key = (item.step, item.attempt, item.kind, item.part)
        shown = self._open.get(key)
        if shown is None:
            number = self._take_index()
            item_id = f"{'msg' if kind == 'message' else 'rs'}_{self._run.id}_{number}"
            shown = self._open[key] = ShownItem(item_id, kind, number, item.step)
            yield from self._added(shown)
        yield from self._grow(shown, item.text)

    def _added(self, shown: ShownItem) -> Iterator[StreamEvent]:
        yield {
            "type": "response.output_item.added",
            "output_index": shown.index,
            "item": shown.document("in_progress"),
        }
        yield {"type": "response.content_part.added", **_place(shown), "part": shown.part}

    def _grow(self, shown: ShownItem, text: str) -> Iterator[StreamEvent]:
        shown.text += text
        event = {"type": f"response.{_text_name(shown)}.delta", **_place(shown), "delta": text}
        yield event | ({"logprobs": []} if shown.type == "message" else {})

    def _close(self, step: int | None, status: str) -> Iterator[StreamEvent]:
        """Yield the events that end the open items of a step.

        Args:
            step: The step. None: all steps.
            status: ``completed`` or ``incomplete``. An item of which a part was trimmed is
                incomplete in any case.
        """
        for key, shown in list(self._open.items()):
            if step is None or shown.step == step:
                del self._open[key]
                is_whole = status == "completed" and key[:2] not in self._trimmed
                if is_whole and shown.type == "message":
                    self._last_message = shown
                yield from self._done(shown, "completed" if is_whole else "incomplete")

    def _done(self, shown: ShownItem, status: str) -> Iterator[StreamEvent]:
        event = {"type": f"response.{_text_name(shown)}.done", **_place(shown), "text": shown.text}
        yield event | ({"logprobs": []} if shown.type == "message" else {})
        yield {"type": "response.content_part.done", **_place(shown), "part": shown.part}
        yield {
            "type": "response.output_item.done",
            "output_index": shown.index,
            "item": shown.document(status),
        }

    def _answer(self, run: Run) -> Iterator[StreamEvent]:
        """Yield the answer of a completed run as a message.

        Nothing is yielded if the run has not completed, or if its last message was the answer.
        """
        if run.status is not RunStatus.COMPLETED:
            return
        text = answer_text(run)
        if self._last_message is not None and self._last_message.text == text:
            return
        shown = ShownItem(f"msg_{run.id}", "message", self._take_index(), run.state.step)
        yield from self._added(shown)
        yield from self._grow(shown, text)
        yield from self._done(shown, "completed")

    def _question(self, run: Run, waiting: PendingInterrupt | None) -> Iterator[StreamEvent]:
        call = question_call(run, waiting)
        if call is None or waiting is None:
            return
        # The event ``interrupted`` has taken the index. A question of a run below has no event.
        own = waiting.run_id == run.id
        index = max(self._next_index - 1, 0) if own else self._take_index()
        yield {
            "type": "response.output_item.added",
            "output_index": index,
            "item": call | {"arguments": "", "status": "in_progress"},
        }
        frame = {"item_id": call["id"], "output_index": index}
        arguments = call["arguments"]
        yield {"type": "response.function_call_arguments.delta", **frame, "delta": arguments}
        yield {
            "type": "response.function_call_arguments.done",
            **frame,
            "name": call["name"],
            "arguments": arguments,
        }
        yield {"type": "response.output_item.done", "output_index": index, "item": call}

    def _take_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1


def _place(shown: ShownItem) -> dict[str, Any]:
    return {"item_id": shown.id, "output_index": shown.index, "content_index": 0}


def _text_name(shown: ShownItem) -> str:
    return "output_text" if shown.type == "message" else "reasoning_text"


def _ending(status: str) -> str:
    """Return the type of a stream's last event: ``response.TYPE``.

    Args:
        status: The status of the response. OpenAI has no such event for a cancelled response, so
            its event says ``incomplete``.
    """
    return status if status in ("completed", "failed") else "incomplete"
