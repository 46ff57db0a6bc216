"""flows check: whether a file is a flow, and if not, all that is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.exits import USAGE
from worker.cli.options import json_option

if TYPE_CHECKING:
    from flows import Flow


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def check_command(ctx: click.Context, file: Path, as_json: bool) -> None:
    """Whether a FILE (YAML) is a flow that can be run here; if not, all that is wrong with it, by line and key.

    It needs no server. What the file names is looked for where a worker would: in the modules of flow_modules
    (HOLDFAST_FLOW_MODULES), in installed packages, and in what ships.
    """
    from flows import InvalidFlow, registry
    from flows.written.faults import Fault, InvalidFlowFile
    from worker.config_files import find_flows
    from worker.settings import load_settings

    settings = load_settings()
    find_flows(settings)
    registry.registered()
    try:
        written = registry.register_file(file)
    except InvalidFlow as error:
        faults = error.faults if isinstance(error, InvalidFlowFile) else (Fault(str(file), 1, "name", str(error)),)
        if as_json:
            errors = [{"line": fault.line, "key": fault.key, "message": fault.message} for fault in faults]
            output.document({"file": str(file), "ok": False, "errors": errors})
        for fault in () if as_json else faults:
            click.echo(str(fault), err=True)
        ctx.exit(USAGE)
    flow = written()
    if as_json:
        output.document({"file": str(file), "ok": True, "name": written.name, "nodes": dict(flow.nodes), "max_rounds": flow.max_rounds})
    else:
        click.echo(_summary(file, flow))


def _summary(file: Path, flow: Flow) -> str:
    rounds = "no limit of cycles" if flow.max_rounds is None else f"at most {flow.max_rounds} cycles, then it ends unfinished"
    return f"{file}: flow {flow.name}, nodes {', '.join(flow.nodes)}, {rounds}: it can be run"
