"""Options that many commands have."""

from __future__ import annotations

import click

url_option = click.option("--url", metavar="URL", help="The server: redis://, rediss://, unix:// or redis+sentinel://.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
#: The live ones first, then those that have ended.
STATUSES = ("queued", "running", "interrupted", "stopped", "completed", "errored")
status_option = click.option("--status", type=click.Choice(STATUSES), help="Only runs of this status.")
flow_option = click.option("--flow", metavar="FLOW", help="Only runs of this flow.")
run_argument = click.argument("run_id", metavar="RUN")
