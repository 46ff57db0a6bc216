"""Remedies: the command that continues an errored run, from the fact stored with its error.

Most errors are continued by a retry. After others a retry fails in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, get_args

from perdure.flows.core.errors import Remedy

#: Hash field of an errored run that a retry does not help: its epoch, a space, and the remedy.
#: Nothing removes it, so a value of another epoch is ignored. Earlier releases did not store it.
REMEDY = "remedy"
#: The arguments of the commands, by remedy.
_COMMANDS: Mapping[Remedy, str] = {
    "retry": "retry {}",
    "fork": "fork {} STEP",
    "again": "again {}",
}


def remedy_in(fields: Mapping[str, str]) -> Remedy:
    """Return the remedy of a run: the action that continues it.

    Args:
        fields: the fields of the run's hash.

    Returns:
        The remedy that is stored for the current epoch of an errored run. ``retry`` if none is
            stored, if it is unknown to this release, or if the run is not errored.
    """
    epoch, _, remedy = fields.get(REMEDY, "").partition(" ")
    if fields.get("phase") != "errored" or epoch != fields.get("epoch"):
        return "retry"
    return cast(Remedy, remedy) if remedy in get_args(Remedy) else "retry"


def command_of(run_id: str, remedy: str | None) -> str:
    """Return the command that continues an errored run, without ``perdure``.

    Args:
        remedy: one of ``Remedy``. A retry if it is None, or of a newer release.
    """
    return _COMMANDS.get(cast(Remedy, remedy), _COMMANDS["retry"]).format(run_id)
