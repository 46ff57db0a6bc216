"""Report: what a lab did, when all went well, and how it tells what did not."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from worker.testing.boundaries import Boundary, Fault
from worker.testing.failures import CrashFound
from worker.testing.judging import Wrong, advice
from worker.testing.story import Story, short

#: Other stories that are named beside the shortest one.
NAMED = 8


@dataclass(frozen=True)
class Report:
    """What was played. ``str`` of it is a few lines for people.

    Attributes:
        flow, goal: what was played.
        undisturbed: the story in which nothing happened.
        boundaries: those of the undisturbed run, at which the faults struck.
        faults: the faults that were played, one a story.
        left_out: stories that ``only`` or ``limit`` left out.
        seconds: how long it took.
    """

    flow: str
    goal: str
    undisturbed: Story
    boundaries: tuple[Boundary, ...]
    faults: tuple[Fault, ...]
    left_out: int
    seconds: float

    @property
    def stories(self) -> int:
        """How many stories were played, the undisturbed one and its repetition not counted."""
        return len(self.faults)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(fault.kind for fault in self.faults).items())
        left = f"\n  {self.left_out} more were left out" if self.left_out else ""
        rounds = self.undisturbed.run.state.step
        return (
            f"crash lab: flow {self.flow!r}, {short(self.goal)}: nothing found\n"
            f"  {rounds} rounds with {len(self.boundaries)} boundaries; {self.stories} stories in {self.seconds:.1f} s ({kinds}){left}"
        )


def found(flow: str, wrong: Sequence[tuple[Story, Wrong]], stories: int) -> CrashFound:
    """The error that tells the shortest of the stories that went wrong, each with what was wrong."""
    story, fault = min(wrong, key=lambda each: len(each[0].trace))
    others = tuple(other.name for other, _ in wrong if other is not story)
    lines = [f"{len(wrong)} of {stories} stories of flow {flow!r} went wrong. The shortest, {story.name!r}:", ""]
    lines += [f"  {line}" for line in str(story.trace).splitlines()]
    lines += ["", "  What is wrong: " + fault.text.replace("\n", "\n    ")]
    if story.world is not None:
        lines.append(f"  The world afterwards: {short(story.world, 400)}")
    lines.append(_wrapped(f"What to do: {advice(story, fault)}"))
    if others:
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        lines += ["", _wrapped(f"Wrong as well: {'; '.join(others[:NAMED])}{more}")]
    lines += ["", f"  To play this story alone: only={story.name!r}"]
    return CrashFound("\n".join(lines), story, others)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 110, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
