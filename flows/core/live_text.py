"""Live text: output of a round for people who watch, before the round is over.

It is not part of the run. It may be lost, and a later attempt of the round replaces it.
"""

from __future__ import annotations


class LiveText:
    """The output of a round for people who watch. This default shows the text to no one."""

    def write(self, text: str, kind: str, part: str) -> None:
        """Show a piece of text. ``kind`` and ``part`` are those of ``RoundContext.stream``."""

    def end(self) -> None:
        """Show the text that is not shown yet, at the round's end."""


#: For processes in which rounds are not watched.
NOT_WATCHED = LiveText()
