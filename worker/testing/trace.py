"""Trace: what happened in a story, one line a thing, for people."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

#: Of an undisturbed beginning, this many rounds before the fault are told; the ones before those went as always.
ROUNDS_BEFORE = 2


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened; ``step`` and ``node`` of the round that did it, None for what happened between rounds."""

    text: str
    step: int | None = None
    node: str = ""
    attempt: int = 1
    times: int = 1

    def __str__(self) -> str:
        return self.text if self.times == 1 else f"{self.text} ({self.times} times)"


@dataclass
class Trace:
    """The lines, and the step at which the story was disturbed (None: it was not)."""

    lines: list[Line] = field(default_factory=list)
    disturbed: int | None = None

    def tell(self, text: str, step: int | None = None, node: str = "", attempt: int = 1) -> None:
        """Add a line; one that only repeats the last is counted there."""
        line = Line(text, step, node, attempt)
        if self.lines and replace(self.lines[-1], times=1) == line:
            self.lines[-1] = replace(line, times=self.lines[-1].times + 1)
        else:
            self.lines.append(line)

    def __len__(self) -> int:
        return len(self.lines)

    def __str__(self) -> str:
        first = max(0, (self.disturbed or 0) - ROUNDS_BEFORE)
        start = next((place for place, line in enumerate(self.lines) if line.step is not None and line.step >= first), 0)
        told = self.lines[start:]
        width = max((len(line.node) for line in told), default=0)
        texts = [f"steps 0 to {first - 1} as always"] if start else []
        for line in told:
            if line.step is None:
                texts.append(f"        {line}")
            else:
                again = f"attempt {line.attempt}: " if line.attempt > 1 else ""
                texts.append(f"step {line.step:<2} {line.node:<{width}}  {again}{line}")
        return "\n".join(texts)
