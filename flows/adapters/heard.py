"""What people say to a run whose agent has come to its answer: the agent goes on with it.

An agent of another library hears nothing while it works. When it has answered, the run looks for
what was said meanwhile, and the agent goes on with the conversation that it had.
"""

from __future__ import annotations

from perdure.flows.conversation import HEARD, ThreadMessage, packed, text_of
from perdure.flows.outcomes import SAY
from perdure.flows.workflows.arguments import digest_of
from perdure.flows.workflows.steps import AsyncSteps

#: Words that are heard at once. The next ones are heard after the next answer.
MOST_WORDS = 20


class HeardWords:
    """What people have said to a run so far, as its journal has it.

    Args:
        steps: of the workflow that runs the agent.
    """

    def __init__(self, steps: AsyncSteps) -> None:
        self._steps = steps
        self._words: list[str] = []

    async def next(self) -> str:
        """Return what people have said since the run began or heard the last, or an empty text."""
        begin = len(self._words)
        while len(self._words) < begin + MOST_WORDS and await self._hear_one():
            pass
        return "\n\n".join(self._words[begin:])

    async def _hear_one(self) -> bool:
        steps = self._steps
        is_done = steps.is_ahead("signal", HEARD, digest_of([SAY]))
        if not is_done and not steps.context.mailbox.unread([SAY]):
            return False
        signal = await steps.wait_for(SAY, name=HEARD)  # It is there, so the run does not wait.
        self._words.append(text_of(signal["payload"]))
        earlier = steps.context.earlier
        if not is_done and earlier.is_thread:
            messages = (ThreadMessage("user", each, steps.run_id) for each in self._words)
            earlier.keep(HEARD, packed(messages))
        return True
