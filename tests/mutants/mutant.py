"""Mutant: one textual change of one Lua file, made on a copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from worker.store import scripts

LUA = Path(scripts.__file__).parent / "lua"


class RottenMutant(Exception):
    """The text that a mutant changes is not there, or is there more than once: the source has moved on, and the mutant must follow."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault.

    Attributes:
        name: ``file.what``, unlike every other.
        file: the Lua file, without its ending.
        old, new: the text that is there exactly once, and what stands there instead.
        rule: what would no longer hold.
        killed_by: the test in tests/store that fails under it (``test_x.py::test_y``).
        equivalent: why no test can tell it from the original; then nothing kills it.
    """

    name: str
    file: str
    old: str
    new: str
    rule: str
    killed_by: str = ""
    equivalent: str = ""

    def text(self) -> str:
        """The changed file; raises RottenMutant."""
        text = (LUA / f"{self.file}.lua").read_text("utf-8")
        if text.count(self.old) != 1:
            raise RottenMutant(f"mutant {self.name}: expected once in {self.file}.lua, came {text.count(self.old)} times: {self.old!r}")
        if self.old == self.new:
            raise RottenMutant(f"mutant {self.name} changes nothing")
        return text.replace(self.old, self.new)

    def write(self, folder: Path) -> None:
        """Put all Lua files into ``folder / "lua"``, this one changed."""
        (folder / "lua").mkdir()
        for path in LUA.glob("*.lua"):
            (folder / "lua" / path.name).write_bytes(path.read_bytes())
        (folder / "lua" / f"{self.file}.lua").write_text(self.text(), "utf-8")

    @property
    def transition(self) -> str:
        """A script that it changes: its own or, where it is in a part, the first that has it."""
        if self.file in scripts.TRANSITIONS:
            return self.file
        return next(name for name in scripts.TRANSITIONS if f"--@ {self.file}.lua\n" in (LUA / f"{name}.lua").read_text("utf-8"))
