"""Live text: output of a round for people who watch, before the round is over.

It is not part of the run. It may be lost, and a later attempt of the round replaces it.
"""

from __future__ import annotations


class LiveText:
    """Where a round shows text before it is over. This default shows it to no one."""

    def write(self, text: str, kind: str, part: str) -> None:
        """Show a piece of text, behind those before."""

    def end(self) -> None:
        """Show the rest of the text, at the round's end."""


#: For processes in which rounds are not watched.
NOT_WATCHED = LiveText()
