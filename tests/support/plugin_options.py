"""pytest's options for the plugin of this tree."""

from __future__ import annotations

#: Our own plugin by its module: this tree may be installed or not, and where it is, pytest has
#: loaded it by its entry point.
PLUGIN = ("-p", "no:perdure", "-p", "perdure.worker.testing.plugin")
