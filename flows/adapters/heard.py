"""Messages and questions of people to a run while its agent is active.

The agent gets them with its next model request. What arrives after the last request is read when
the agent has answered. The agent then continues its conversation. Its last answer is the reply to
the questions.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from pydantic_core import to_jsonable_python

from perdure.flows.core.outcomes import ASK, SAY
from perdure.flows.core.thread_messages import HEARD, ThreadMessage, packed, text_of
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.waits import ReceivedSignal
from perdure.flows.workflows.arguments import digest_of, digest_of_call
from perdure.flows.workflows.steps import AsyncSteps

#: Maximum number of messages and questions that are read at once. The rest is read with the next
#: request.
MOST_WORDS = 20
#: Name of the run's value with the number of the last request before which it has read messages.
LOOKED = "_heard_before"


class HeardWords:
    """The messages and questions of people for an agent's run.

    Args:
        steps: the steps of the workflow that runs the agent.
    """

    def __init__(self, steps: AsyncSteps) -> None:
        self._steps = steps
        self._words: list[str] = []
        #: The numbers of the questions among the words.
        self._asks: list[int] = []
        self._requests = 0

    async def before_request(self) -> str:
        """Read the new messages and questions, and return them as one text.

        They arrived since the last request. Call this before each model request. Each attempt of a
        request gets the same messages, because the run records them and the number of the request.

        Returns:
            At most ``MOST_WORDS`` messages. Empty if there are none.
        """
        self._requests += 1
        steps, request = self._steps, self._requests
        name, begin = f"{HEARD}-{request}", len(self._words)
        await self._hear_recorded(name)
        if request <= steps.context.values.get(LOOKED, 0) or steps.is_replaying():
            return self._from(begin)  # The request was made before, perhaps by an older release.
        while len(self._words) < begin + MOST_WORDS:
            unread = steps.once_in_round(f"{name}-{len(self._words)}", self._first_unread)
            if not unread:
                break
            # Workers of older releases read only messages, and recorded True.
            await self._hear_one(SAY if unread is True else unread, name)
        steps.context.remembered[LOOKED] = request  # No name of the user begins with "_".
        return self._from(begin)

    async def next(self) -> str:
        """Read the remaining messages and questions, and return them as one text.

        They arrived after the last request. Call this when the agent has answered.

        Returns:
            At most ``MOST_WORDS`` messages. Empty if there are none.
        """
        begin = len(self._words)
        # A later answer has the same name. What is read there comes after further requests.
        await self._hear_recorded(HEARD, at_once=True)
        while len(self._words) < begin + MOST_WORDS and not self._steps.is_replaying():
            if not (unread := self._first_unread()):
                break
            await self._hear_one(unread, HEARD)
        return self._from(begin)

    async def reply(self, answer: Any) -> None:
        """Reply to the questions. Call this when ``next`` has nothing more.

        Args:
            answer: the agent's last answer.
        """
        text = text_of(to_jsonable_python(answer, fallback=str)) if self._asks else ""
        for number in self._asks:
            name = f"reply-{number}"
            await self._steps.step(_reply, number, text, name=name, idempotent=True)

    def _from(self, begin: int) -> str:
        return "\n\n".join(self._words[begin:])

    def _first_unread(self) -> str:
        unread = self._steps.context.mailbox.unread([SAY, ASK])
        return unread[0].name if unread else ""

    async def _hear_recorded(self, name: str, at_once: bool = False) -> None:
        """Read the messages and questions that the journal has recorded under a name.

        Args:
            at_once: stop at the first other entry that the function has not requested yet.
        """
        while recorded := self._recorded(name):
            signal, place = recorded
            if at_once and place > 0:
                break
            await self._hear_one(signal, name)

    def _recorded(self, name: str) -> tuple[str, int] | None:
        """Return the next message or question that the journal has recorded under a name.

        Returns:
            ``SAY`` or ``ASK``, and the place in the journal. None if nothing is left.
        """
        places = {
            SAY: self._steps.place_ahead("signal", name, digest_of([SAY])),
            ASK: self._steps.place_ahead("step", _of_ask(name), digest_of_call(_take_ask, ())),
        }
        found = [(signal, place) for signal, place in places.items() if place is not None]
        return min(found, key=itemgetter(1), default=None)

    async def _hear_one(self, signal: str, name: str) -> None:
        steps, is_recorded = self._steps, self._recorded(name) is not None
        if signal == SAY:  # It is there, so the run does not wait.
            payload = (await steps.wait_for(SAY, name=name))["payload"]
        else:
            number, payload = await steps.step(_take_ask, name=_of_ask(name), idempotent=True)
            self._asks.append(number)
        self._words.append(text_of(payload))
        earlier = steps.context.earlier
        if not is_recorded and earlier.is_thread:
            messages = (ThreadMessage("user", each, steps.run_id) for each in self._words)
            earlier.keep(HEARD, packed(messages))


def _of_ask(name: str) -> str:
    return f"{name}-ask"


def _take_ask(context: RoundContext) -> tuple[int, Any]:
    """Take the run's oldest unread question."""
    question = context.take(ASK)
    assert question is not None, "the round has found one"
    return question.number, question.payload


def _reply(number: int, text: str, context: RoundContext) -> None:
    context.reply(ReceivedSignal(ASK, number), text)
