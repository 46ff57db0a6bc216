"""Messages of people to a run while its agent is active.

The agent gets new messages with its next model request. Messages that arrive after the last request
are read when the agent has answered. The agent then continues its conversation.
"""

from __future__ import annotations

from perdure.flows.core.outcomes import SAY
from perdure.flows.core.thread_messages import HEARD, ThreadMessage, packed, text_of
from perdure.flows.workflows.arguments import digest_of
from perdure.flows.workflows.steps import AsyncSteps

#: Maximum number of messages that are read at once. The rest is read with the next request.
MOST_WORDS = 20
#: Name of the run's value with the number of the last request before which it has read messages.
LOOKED = "_heard_before"


class HeardWords:
    """The messages of people for an agent's run.

    Args:
        steps: the steps of the workflow that runs the agent.
    """

    def __init__(self, steps: AsyncSteps) -> None:
        self._steps = steps
        self._words: list[str] = []
        self._requests = 0

    async def before_request(self) -> str:
        """Read the new messages, and return them as one text.

        They arrived since the last request. Call this before each model request. Each attempt of a
        request gets the same messages, because the run records them and the number of the request.

        Returns:
            At most ``MOST_WORDS`` messages. Empty if there are none.
        """
        self._requests += 1
        steps, request = self._steps, self._requests
        name, begin = f"{HEARD}-{request}", len(self._words)
        while self._is_done(name):
            await self._hear_one(name)
        if request <= steps.context.values.get(LOOKED, 0) or steps.is_replaying():
            return self._from(begin)  # The request was made before, perhaps by an older release.
        while len(self._words) < begin + MOST_WORDS and steps.once_in_round(
            f"{name}-{len(self._words)}", self._has_words
        ):
            await self._hear_one(name)
        steps.context.remembered[LOOKED] = request  # No name of the user begins with "_".
        return self._from(begin)

    def _from(self, begin: int) -> str:
        return "\n\n".join(self._words[begin:])

    def _has_words(self) -> bool:
        return bool(self._steps.context.mailbox.unread([SAY]))

    async def next(self) -> str:
        """Read the remaining messages, and return them as one text.

        They arrived after the last request. Call this when the agent has answered.

        Returns:
            At most ``MOST_WORDS`` messages. Empty if there are none.
        """
        begin = len(self._words)
        while len(self._words) < begin + MOST_WORDS and self._has_more():
            await self._hear_one(HEARD)
        return self._from(begin)

    def _has_more(self) -> bool:
        """Return whether there is a message for ``next``.

        During a replay, only the messages in the journal count.
        """
        return self._is_done(HEARD) or (not self._steps.is_replaying() and self._has_words())

    def _is_done(self, name: str) -> bool:
        return self._steps.is_ahead("signal", name, digest_of([SAY]))

    async def _hear_one(self, name: str) -> None:
        steps, is_done = self._steps, self._is_done(name)
        signal = await steps.wait_for(SAY, name=name)  # It is there, so the run does not wait.
        self._words.append(text_of(signal["payload"]))
        earlier = steps.context.earlier
        if not is_done and earlier.is_thread:
            messages = (ThreadMessage("user", each, steps.run_id) for each in self._words)
            earlier.keep(HEARD, packed(messages))
