"""Live text: output that a round shows to people before its commit.

It is not part of the run. It may be lost, and a later attempt of the round replaces it.
"""

from __future__ import annotations


class LiveText:
    """The output of a round for people who watch. This default discards the text."""

    def write(self, text: str, kind: str, part: str) -> None:
        """Show a piece of text. For ``kind`` and ``part`` see ``RoundContext.stream``."""

    def end(self) -> None:
        """Show the rest of the text. The round calls this once, at its end."""


#: For processes in which rounds are not watched.
NOT_WATCHED = LiveText()
