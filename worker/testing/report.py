"""Report: the result of a crash lab if no story went wrong, and the error if one did."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.worker.testing.checks import Violation, advice
from perdure.worker.testing.errors import CrashFound
from perdure.worker.testing.faults import Boundary, Fault
from perdure.worker.testing.story import Story, short

#: Maximum number of other failed stories that the error names beside the shortest.
NAMED = 8


@dataclass(frozen=True)
class Report:
    """Result of a crash lab in which no story went wrong. ``str(report)`` is text for people.

    Attributes:
        flow, goal: The flow's name and the goal, equal in all stories.
        undisturbed: The story without a fault.
        boundaries: Boundaries of the undisturbed run, at which the faults struck.
        faults: The injected faults, one per story.
        left_out: Number of stories that ``only`` or ``limit`` left out.
        seconds: Total duration.
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
        """The number of stories with an injected fault."""
        return len(self.faults)

    def __str__(self) -> str:
        kinds = ", ".join(
            f"{count} {kind}"
            for kind, count in Counter(fault.kind for fault in self.faults).items()
        )
        left = f"\n  {self.left_out} more were left out" if self.left_out else ""
        rounds = self.undisturbed.run.state.step
        return (
            f"crash lab: flow {self.flow!r}, {short(self.goal)}: nothing found\n"
            f"  {rounds} rounds with {len(self.boundaries)} boundaries; "
            f"{self.stories} stories in {self.seconds:.1f} s ({kinds}){left}"
        )


def found(flow: str, wrong: Sequence[tuple[Story, Violation]], stories: int) -> CrashFound:
    """Return the error for a lab with failed stories. Its text shows the shortest failed story.

    Args:
        flow: The flow's name.
        wrong: The failed stories, each with its violation.
        stories: Number of stories that ran.
    """
    story, fault = min(wrong, key=lambda each: len(each[0].trace))
    others = tuple(other.name for other, _ in wrong if other is not story)
    lines = [
        (
            f"{len(wrong)} of {stories} stories of flow {flow!r} went wrong. The shortest, "
            f"{story.name!r}:"
        ),
        "",
    ]
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
    return textwrap.fill(
        text,
        110,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
