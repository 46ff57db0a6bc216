"""A run's stream as the response of an assistant.

The response calls a writer for each text and tool call that begins, grows or ends. It does no I/O:
its caller passes each item of the stream, with the run and the tool results that the item needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic_core import from_json

from perdure.flows.core.thread_messages import spoken_text
from perdure.worker.domain.event import LAST
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.domain.stream import RETRACTED, TEXT, StreamItem
from perdure.worker.web.ui_streams.tool_results import CallRefused, ToolResult, arguments_of
from perdure.worker.web.ui_streams.writer import (
    UiEvent,
    UiToolCall,
    UiWriter,
    interrupt_ref,
)

TextKind = Literal["text", "thinking"]
#: The kinds of live text that the protocols have.
TEXT_KINDS: dict[str, TextKind] = {"text": "text", "thinking": "thinking"}
#: The kind of live text that is a tool call's arguments. Its ``part`` is the tool's name.
ARGUMENTS = "arguments"
#: The call with which a model ends a run, and the argument that is its answer. It is shown as text.
FINISH, ANSWER = "finish", "answer"


class UiResponse:
    """The translation of a run's stream into the events of a writer.

    Attributes:
        is_over: Whether the response has ended. No event may follow.
    """

    def __init__(self, run_id: str, writer: UiWriter, calls: Sequence[UiToolCall] = ()) -> None:
        """Make a response in which nothing has begun.

        Args:
            calls: Tool calls in the client's conversation that have no result yet.
        """
        self._run_id, self._writer = run_id, writer
        self.is_over = False
        #: Step and attempt whose text is shown.
        self._round: tuple[int, int] | None = None
        #: Step and attempt of the last item, and the parts that have begun there.
        self._place, self._parts = (0, 0), 0
        #: Ids of the texts that have not ended, by kind and part.
        self._texts: dict[tuple[TextKind, str], str] = {}
        #: Arguments so far of the calls that have not ended, by tool.
        self._arguments: dict[str, tuple[UiToolCall, str]] = {}
        #: Texts and calls of the round, which a retraction takes back.
        self._text_ids: list[str] = []
        self._calls_of_round: list[UiToolCall] = []
        #: Calls without a result.
        self._calls = list(calls)
        #: The call about which a person was asked last, with the name of the question.
        self._asked: tuple[str, str, Mapping[str, Any]] | None = None
        #: The text of the round so far, and the text of the last committed round with a text.
        self._text, self._last_text = "", ""
        self._finish_arguments, self._finish_answer = "", ""

    def begin(self) -> Iterator[UiEvent]:
        """Yield a result for each of the client's calls that a run below makes.

        The result has only the run's id and the person's decision, because the stream of this run
        has no results of runs below. Without a result, the call would look undecided.
        """
        for call in [each for each in self._calls if each.below is not None]:
            self._calls.remove(call)
            result = {"run": call.below, "approved": call.approved}
            yield from self._writer.give_result(call, result)

    def needs_run(self, item: StreamItem) -> bool:
        """Return whether ``take`` needs the run for this item."""
        return item.type in (*LAST, "interrupted")

    def needs_results(self, item: StreamItem) -> bool:
        """Return whether ``take`` needs the tool results of the item's round."""
        return item.type == "committed" and ("observation" in item.data or "did" in item.data)

    def take(
        self,
        item: StreamItem,
        run: Run | None = None,
        results: Sequence[ToolResult | CallRefused] = (),
    ) -> Iterator[UiEvent]:
        """Yield the events for an item of the run's stream.

        Args:
            run: The current state of the run. Needed only if ``needs_run`` is true for the item.
            results: The results of the round's tools. Needed only if ``needs_results`` is true for
                the item.
        """
        if (item.step, item.attempt) != self._place:
            self._place, self._parts = (item.step, item.attempt), 0
        if item.type == TEXT:
            yield from self._take_text(item)
        elif item.type == RETRACTED:
            yield from self._retract(item)
        elif item.type == "committed":
            refused = [each for each in results if isinstance(each, CallRefused)]
            yield from self._commit(
                item, [each for each in results if not isinstance(each, CallRefused)]
            )
            for each in refused:
                yield from self._refuse(each)
        elif run is not None:
            if item.type == "interrupted":
                self._note_question(item.data)
            yield from self.end(run, item)

    def end(self, run: Run, item: StreamItem | None = None) -> Iterator[UiEvent]:
        """Yield the events that may end the response.

        If the run has ended or asks a person, the response ends. Otherwise nothing is yielded.

        Args:
            run: The current state of the run.
            item: The event at which the response may end. If it is a question that was answered
                since, nothing is yielded. None: only ``run`` decides.
        """
        pending = PendingInterrupt.of(run) if run.status is RunStatus.INTERRUPTED else None
        if item is not None and item.type == "interrupted":
            if pending is None or pending.id != item.data.get("interrupt"):
                return
        elif not run.status.ended and pending is None:
            return
        if pending is not None:
            yield from self.ask(pending)
            return
        yield from self._leave_round()
        self.is_over = True
        if run.status is RunStatus.COMPLETED:
            text = spoken_text(run.answer, run.output)
            answer = run.answer if text is None else text
            is_shown = isinstance(answer, str) and answer.strip() in self._last_text
            yield from self._writer.finish(run, None if is_shown else answer)
        elif run.status is RunStatus.ERRORED:
            yield from self._writer.fail(run.error or "the run failed")
        else:
            yield from self._writer.abort(str(run.details.get("stop_reason") or "stopped"))

    def ask(self, pending: PendingInterrupt) -> Iterator[UiEvent]:
        """Yield the events that end the response with an open question.

        The question is one of the response's run or of a run below it.
        """
        yield from self._leave_round()
        self.is_over = True
        yield from self._ask(pending)

    def lose(self) -> Iterator[UiEvent]:
        """Yield the events that report a deleted run.

        They end the response.
        """
        yield from self._leave_round()
        self.is_over = True
        yield from self._writer.fail(f"run {self._run_id} was deleted")

    def _take_text(self, item: StreamItem) -> Iterator[UiEvent]:
        place = item.step, item.attempt
        if place != self._round:
            yield from self._leave_round()
            self._round = place
            yield from self._writer.begin_step(str(item.step))
        kind = TEXT_KINDS.get(item.kind)
        if kind is not None:
            yield from self._add_text(kind, item.part, item.text)
        elif item.kind != ARGUMENTS:
            yield from self._writer.add_data(item.kind, item.part, item.text)
        elif item.part == FINISH:
            yield from self._add_text("text", FINISH, self._answer_in(item.text))
        else:
            yield from self._add_arguments(item.part, item.text)

    def _answer_in(self, text: str) -> str:
        """Return the text that a piece adds to the answer.

        ``text`` is a piece of the arguments of the call ``finish``, as JSON text. The result is ''
        if the piece adds nothing, or if the arguments so far are not the beginning of JSON.
        """
        self._finish_arguments += text
        try:
            args = from_json(self._finish_arguments, allow_partial="trailing-strings")
        except ValueError:
            return ""
        answer = args.get(ANSWER) if isinstance(args, dict) else None
        if not isinstance(answer, str) or not answer.startswith(self._finish_answer):
            return ""
        added, self._finish_answer = answer[len(self._finish_answer) :], answer
        return added

    def _add_text(self, kind: TextKind, part: str, text: str) -> Iterator[UiEvent]:
        if not text:
            return
        if (kind, part) not in self._texts:
            yield from self._end_texts([place for place in self._texts if place[0] != kind])
            yield from self._end_calls(known=False)
            self._texts[kind, part] = self._new_id()
            self._text_ids.append(self._texts[kind, part])
            yield from self._writer.start_text(self._texts[kind, part], kind)
        if kind == "text":
            self._text += text
        yield from self._writer.add_text(self._texts[kind, part], kind, text)

    def _add_arguments(self, tool: str, text: str) -> Iterator[UiEvent]:
        if tool in self._arguments and _is_next_call(self._arguments[tool][1], text):
            yield from self._end_calls(known=False)
        if tool not in self._arguments:
            yield from self._end_texts(list(self._texts))
            call = UiToolCall(self._new_id(), tool)
            self._arguments[tool] = call, ""
            yield from self._writer.start_call(call)
        call, so_far = self._arguments[tool]
        self._arguments[tool] = call, so_far + text
        yield from self._writer.add_arguments(call, text)

    def _end_texts(self, places: Sequence[tuple[TextKind, str]]) -> Iterator[UiEvent]:
        for place in places:
            yield from self._writer.end_text(self._texts.pop(place), place[0])

    def _end_calls(self, known: bool) -> Iterator[UiEvent]:
        """End the open tool calls whose arguments are complete.

        Args:
            known: True: the arguments of all open calls are complete. False: only arguments that
                are a JSON object are complete.
        """
        for tool, (call, text) in list(self._arguments.items()):
            args = arguments_of(text)
            if args is not None or known:
                del self._arguments[tool]
                whole = replace(call, args=args)
                self._calls_of_round.append(whole)
                yield from self._writer.end_call(whole)

    def _leave_round(self) -> Iterator[UiEvent]:
        """End the texts and calls of the shown attempt. If no attempt is shown, do nothing."""
        if self._round is None:
            return
        yield from self._end_texts(list(self._texts))
        yield from self._end_calls(known=True)
        yield from self._writer.end_step(str(self._round[0]))
        self._calls += self._calls_of_round
        self._round, self._text_ids, self._calls_of_round = None, [], []
        self._text = self._finish_arguments = self._finish_answer = ""

    def _retract(self, item: StreamItem) -> Iterator[UiEvent]:
        if self._round is None or self._round[0] != item.step:
            return  # Nothing of the round was shown here.
        yield from self._end_texts(list(self._texts))
        yield from self._end_calls(known=True)
        _, attempt = self._round
        ids, calls = self._text_ids, self._calls_of_round
        self._calls_of_round = []
        yield from self._leave_round()
        yield from self._writer.retract(item.step, attempt, ids, calls)

    def _commit(self, item: StreamItem, results: Sequence[ToolResult]) -> Iterator[UiEvent]:
        is_reply = self._round is not None and self._round[0] == item.step
        if is_reply:
            self._last_text = self._text or self._last_text
            yield from self._leave_round()
        elif "command" in item.data and "observation" not in item.data:
            args = arguments_of(item.data.get("args"))
            if args is not None and item.data["command"] != FINISH and "calls" not in item.data:
                yield from self._begin_call(str(item.data["command"]), args)
        # Calls with the same arguments come first: the person may have changed the arguments of the
        # others.
        for name, arguments, result in sorted(results, key=lambda each: not self._is_shown(each)):
            call = self._call_of(name, arguments)
            if call is None and is_reply:
                continue  # A round that has shown text is a reply, and no call of a tool.
            if call is None:
                yield from self._begin_call(name, arguments or {})
                call = self._calls[-1]
            self._calls.remove(call)
            yield from self._writer.give_result(call, result)

    def _begin_call(self, name: str, args: Mapping[str, Any]) -> Iterator[UiEvent]:
        """Show a whole call.

        Its arguments were not shown as live text before.
        """
        call = UiToolCall(self._new_id(), name, args)
        self._calls.append(call)
        yield from self._writer.start_call(call)
        yield from self._writer.end_call(call)

    def _note_question(self, data: Mapping[str, Any]) -> None:
        """Remember the call about which a workflow asks a person.

        ``data`` is that of the event ``interrupted``. If it names no call, nothing changes.
        """
        approval, asks = data.get("approval"), data.get("asks")
        if not isinstance(approval, Mapping) or not isinstance(asks, str):
            return
        args = approval.get("args")
        args = args if isinstance(args, Mapping) else arguments_of(args) or {}
        self._asked = asks, str(approval.get("command")), args

    def _refuse(self, refused: CallRefused) -> Iterator[UiEvent]:
        """Write the result of a call that a person refused. Without such a call, do nothing."""
        call = next((each for each in self._calls if each.approved is False), None)
        if call is None and self._asked is not None and self._asked[0] == refused.asked:
            _, name, args = self._asked
            call = self._call_of(name, args)
            if call is None:
                yield from self._begin_call(name, args)
                call = self._calls[-1]
        if call is not None:
            self._calls.remove(call)
            words = refused.words or "a person refused this call"
            yield from self._writer.give_result(call, {"refused": words})

    def _is_shown(self, result: ToolResult) -> bool:
        name, args, _ = result
        return any(call.name == name and call.args == args for call in self._calls)

    def _call_of(
        self, name: str, args: Mapping[str, Any] | None, is_asked: bool = False
    ) -> UiToolCall | None:
        """Return the most similar call without a result.

        It has this name, and arguments that are most similar to ``args``. The arguments need not be
        equal: a person may have changed them, and a stream that has lost its beginning may lack
        them.

        Args:
            is_asked: Whether a person is being asked about the call. Of equally similar calls, one
                without a decision is then preferred.

        Returns:
            None if no call without a result has this name.
        """
        calls = [call for call in self._calls if call.name == name]
        if is_asked:
            calls.sort(key=lambda call: call.approved is not None)
        return max(calls, key=lambda call: call.fits(args), default=None)

    def _ask(self, pending: PendingInterrupt) -> Iterator[UiEvent]:
        call = None
        if pending.kind != "approval" or pending.command is None:
            pass
        elif pending.run_id != self._run_id:
            # No item of the run's stream has the call, so its id is the question's: it is the same
            # for each reader.
            call = UiToolCall(interrupt_ref(self._run_id, pending), pending.command, pending.args)
            yield from self._writer.start_call(call)
            yield from self._writer.end_call(call)
        else:
            call = self._call_of(pending.command, pending.args, is_asked=True)
            if call is None:
                yield from self._begin_call(pending.command, pending.args)
                call = self._calls[-1]
        yield from self._writer.ask(self._run_id, pending, call)

    def _new_id(self) -> str:
        """Return a new id for a text or a call.

        The id is unique in the run. Each reader of the stream gets the same id.
        """
        step, attempt = self._place
        self._parts += 1
        return f"{self._run_id}.{step}.{attempt}.{self._parts}"


def _is_next_call(so_far: str, text: str) -> bool:
    """Return whether a piece of arguments begins another call.

    The call is one of the same tool.

    Args:
        so_far: The arguments of the current call so far.
        text: The new piece.
    """
    is_end = so_far.rstrip().endswith("}") and text.lstrip().startswith("{")
    return is_end and arguments_of(so_far) is not None
