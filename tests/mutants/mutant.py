"""Mutant: a Lua file with one fault, written into a copy of all files."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from perdure.worker.store import scripts

LUA = Path(scripts.__file__).parent / "lua"
#: The Lua files of the store and of features, by their path below a folder ``lua``, without ending.
FILES = {
    path.relative_to(folder).with_suffix("").as_posix(): path
    for folder in (LUA, *map(Path, map(str, scripts.folders())))
    for path in sorted(folder.rglob("*.lua"))
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault.

    Attributes:
        name: ``file:function:operator:digest``. The digest is of the statement as its tokens are,
            so the name survives a new format. Further ones of a statement are numbered.
        file: the Lua file, without its ending.
        text: the file with the fault.
    """

    name: str
    file: str
    text: str

    @property
    def transition(self) -> str:
        """A script that has the file: itself, or the first that includes it."""
        if self.file in scripts.TRANSITIONS:
            return self.file
        texts = {name: FILES[name].read_text("utf-8") for name in scripts.TRANSITIONS}
        including = f"--@ {self.file}.lua\n"
        if self.file == "parts/arguments":  # by way of another part
            including = "--@ parts/run.lua\n"
        return next(name for name, text in texts.items() if including in text)

    def diff(self) -> str:
        """Return the change of the fault, as a unified diff without context."""
        before = FILES[self.file].read_text("utf-8").splitlines()
        lines = list(difflib.unified_diff(before, self.text.splitlines(), n=0, lineterm=""))
        return "\n".join(lines[2:])

    def write(self, folder: Path) -> None:
        """Write all Lua files into a folder, this one changed."""
        (folder / "lua" / "parts").mkdir(parents=True)
        for name, path in FILES.items():
            (folder / "lua" / f"{name}.lua").write_bytes(path.read_bytes())
        (folder / "lua" / f"{self.file}.lua").write_text(self.text, "utf-8")
