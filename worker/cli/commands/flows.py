"""The command ``flows`` and its three subcommands.

``flows`` lists flows. ``flows check`` validates YAML files and Python modules. After ``flows
pause``, no round of a flow's runs starts, and ``flows unpause`` lets the runs continue.
"""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import engine_here
from perdure.worker.cli.commands.stop import name_for
from perdure.worker.cli.exit_codes import USAGE
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for
from perdure.worker.domain.fleet import names_text, shown
from perdure.worker.errors import InvalidTransition, UnknownFlow
from perdure.worker.presentation.text import count, plain
from perdure.worker.presentation.usage import amount

if TYPE_CHECKING:
    from perdure.flows.loading.errors import FileFault
    from perdure.flows.rounds.flow import Flow

#: By subcommand: its usage and its line in the help. The command object is ``NAME_command``.
SUBCOMMANDS = {
    "check": ("check FILE...", "Check YAML flows and Python modules and list all errors."),
    "pause": ("pause NAME", "Stop starting rounds of a flow's runs."),
    "unpause": ("unpause NAME", "Continue the runs of a paused flow."),
}


class FlowsCommand(click.Command):
    """The click command ``flows``. Its first argument may name a subcommand or a flow."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the click context of the subcommand that the first argument names.

        If it names no subcommand, return the context of the command ``flows`` itself.
        """
        if args and args[0] in SUBCOMMANDS:
            command = self.subcommand(args[0])
            return command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    @staticmethod
    def subcommand(name: str) -> click.Command:
        """Return the click command of a subcommand of ``flows``, such as ``check``."""
        command = globals()[f"{name}_command"]
        assert isinstance(command, click.Command)
        return command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands after the help text."""
        with formatter.section("Also"):
            formatter.write_dl(
                [(f"{ctx.command_path} {usage}", line) for usage, line in SUBCOMMANDS.values()]
            )


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@json_option
@click.pass_context
def check_command(ctx: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """Check that the flows in each FILE can run here, or list all errors by line and key.

    FILE is a flow in YAML, a Python module with flows (its file or its name), or a directory: then
    all of its YAML files are checked.

    Needs no server. Names in a YAML file are looked up as a worker does: in the modules of
    flow_modules (PERDURE_FLOW_MODULES), in installed packages, and in what ships with Perdure. A
    module is run, as a worker imports it.
    """
    told = [_check(target, as_json) for file in files for target in _targets(file)]
    ok = all(each["ok"] for each in told)
    if as_json and len(files) == 1 and not _is_plain_directory(Path(files[0])):
        output.document(told[0])
    elif as_json:
        output.document({"ok": ok, "files": told})
    if not ok:
        ctx.exit(USAGE)


def _targets(file: str) -> list[str]:
    """Return the files or modules that an argument names.

    For a directory that is no Python package, they are its YAML files. Otherwise it is the argument
    itself.

    Raises:
        UsageError: The directory has no YAML file.
    """
    from perdure.flows.loading.module_check import is_module

    if is_module(file) and not _is_plain_directory(Path(file)):
        return [file]
    if not Path(file).is_dir():
        return [str(Path(file))]
    files = (each for each in sorted(Path(file).glob("*")) if each.suffix in (".yaml", ".yml"))
    found = [str(each) for each in files if each.is_file()]
    if not found:
        raise click.UsageError(
            f"the directory {file} has no flow in YAML (*.yaml, *.yml); for flows in Python, name "
            "their modules"
        )
    return found


def _is_plain_directory(path: Path) -> bool:
    """Return whether a path is a directory without ``__init__.py``."""
    return path.is_dir() and not (path / "__init__.py").is_file()


def _check(file: str, as_json: bool) -> dict[str, Any]:
    """Check a YAML file or a Python module. Print the result unless ``as_json``.

    Returns:
        The result as JSON data. Its ``ok`` says whether the file is valid. If the file is valid and
        ``as_json`` is False, ``ok`` is the only key.
    """
    from perdure.flows.loading.module_check import is_module

    is_python = is_module(file)
    faults, flows = _check_module(file) if is_python else _check_file(Path(file))
    if faults:
        for fault in () if as_json else faults:
            click.echo(str(fault), err=True)
        errors = [
            {"line": fault.line, "key": fault.key, "message": fault.message} for fault in faults
        ]
        return {"file": file, "ok": False, "errors": errors}
    for flow in () if as_json else flows:
        click.echo(_summary(file, flow))
        for warning in _doubts(flow):
            click.echo(f"{file}: {warning}", err=True)
        if flow.missing is not None:
            click.echo(f"Workers on this machine cannot run it: {flow.missing}", err=True)
    if not as_json:
        return {"ok": True}
    told = [
        {
            "name": flow.name,
            "nodes": dict(flow.nodes),
            "max_rounds": flow.max_rounds,
            "missing": flow.missing,
            "warnings": _doubts(flow),
        }
        for flow in flows
    ]
    return {"file": file, "ok": True, **({"flows": told} if is_python else told[0])}


def _check_file(file: Path) -> tuple[list[FileFault], list[Flow]]:
    """Check a flow in a YAML file.

    The flows of this process are registered too, because the file may name them.

    Returns:
        The faults, and a list with the flow of the file. One of the two lists is empty.
    """
    from perdure.flows.core.errors import InvalidFlow
    from perdure.flows.loading import sources
    from perdure.flows.loading import started_flows as starts
    from perdure.flows.loading.errors import FileFault, InvalidFlowFile
    from perdure.flows.rounds import registry
    from perdure.worker.flow_registration import find_flows
    from perdure.worker.settings import load_settings

    find_flows(load_settings())
    registry.registered()
    try:
        written = sources.register_file(file)
        if faults := starts.faults_of(written.name, written.starts):
            return faults, []
    except InvalidFlowFile as error:
        return list(error.faults), []
    except InvalidFlow as error:
        return [FileFault(str(file), 1, "name", str(error))], []
    flow = written()
    flow.name = written.name
    return [], [flow]


def _check_module(target: str) -> tuple[list[FileFault], list[Flow]]:
    """Run a Python module, and check the flows that it registers.

    Returns:
        The faults, and the registered flows. A module that registers no flow has a fault.
    """
    from perdure.flows.loading.errors import FileFault
    from perdure.flows.loading.module_check import run_module
    from perdure.flows.rounds import registry
    from perdure.worker.flow_registration import find_flows
    from perdure.worker.settings import load_settings

    checked = run_module(target)
    find_flows(load_settings())
    registry.registered()
    checked.check_flows()
    if not checked.flows and not checked.faults:
        what = "it registers no flow: expected @workflow, @register(...) or register(name, flow)"
        return [FileFault(checked.file, 1, "", what)], []
    return checked.faults, checked.flows


def _doubts(flow: Flow) -> list[str]:
    """Return warnings about likely mistakes in a valid flow, one sentence each.

    The list is empty if there are none.
    """
    from perdure.flows.controllers.model import ModelController
    from perdure.flows.controllers.model.doubts import doubtful_models
    from perdure.flows.loading.module_check import likely_mistakes
    from perdure.worker.settings import load_settings

    doubts = likely_mistakes(flow)
    controller = getattr(flow, "controller", None)
    if isinstance(controller, ModelController) and load_settings().model_url is None:
        doubts += doubtful_models(controller.settings)
    return doubts


def _summary(file: str, flow: Flow) -> str:
    rounds = (
        "no limit of cycles"
        if flow.max_rounds is None
        else f"at most {count(flow.max_rounds, 'cycle')}, then it ends unfinished"
    )
    return f"{file}: valid. Flow {flow.name}, nodes {', '.join(flow.nodes)}, {rounds}"


@click.command("pause")
@click.argument("name")
@click.option("--reason", metavar="TEXT", help="Why; shown with the pause.")
@click.option("--by", metavar="NAME", help="Who pauses it. [default: your login name]")
@json_option
@url_option
def pause_command(
    name: str, reason: str | None, by: str | None, as_json: bool, url: str | None
) -> None:
    """Pause the flow NAME: workers claim no more rounds of its runs.

    Rounds in flight finish. New runs can be submitted; they wait.
    """
    with client_for(url) as client:
        is_new = client.pause_flow(name, reason, by or name_for(client))
        info = client.paused_flows().get(name)
    if as_json:
        output.document(
            {
                "flow": name,
                "paused": True,
                **({} if info is None else {**info, "at": info["at"].isoformat()}),
            }
        )
    else:
        click.echo(
            f"flow {name} is {'' if is_new else 'already '}paused; "
            f"to continue it: perdure flows unpause {name}"
        )


@click.command("unpause")
@click.argument("name")
@json_option
@url_option
def unpause_command(name: str, as_json: bool, url: str | None) -> None:
    """Continue all runs of the paused flow NAME at their current steps."""
    with client_for(url) as client:
        paused = name in client.paused_flows()
        offered = client.unpause_flow(name)
    if not paused and not offered:
        raise InvalidTransition(f"flow {name} is not paused")
    if as_json:
        output.document({"flow": name, "paused": False, "offered": offered})
    else:
        click.echo(
            f"flow {name} continues"
            + (f"; {count(offered, 'waiting run')} queued" if offered else "")
        )


@click.command("flows", cls=FlowsCommand)
@click.argument("name", required=False)
@click.option(
    "--all",
    "all_of_them",
    is_flag=True,
    help="Include the flows that ship with Perdure and are not enabled.",
)
@json_option
@url_option
def flows_command(name: str | None, all_of_them: bool, as_json: bool, url: str | None) -> None:
    """List the flows of this machine and of live workers, or show the flow NAME."""
    with client_for(url) as client:
        paused = client.paused_flows()
        flows: dict[str, dict[str, Any]] = {
            key: {**flow, "paused": key in paused} for key, flow in client.flows().items()
        }
    if name is None:
        every = flows
        flows = flows if all_of_them or as_json else shown(flows, enabled_here())
        if as_json:
            output.document(flows)
            return
        rows = [
            (key, _workers_text(key, flow), plain(flow["description"]))
            for key, flow in flows.items()
        ]
        output.table(
            ("flow", "workers", "description"),
            rows,
            "description",
            "no flows",
            spare=("workers",),
        )
        if len(flows) < len(every) and sys.stdout.isatty():
            click.echo(f"{len(every) - len(flows)} more ship with Perdure; --all shows them")
        return
    if name not in flows:
        near = difflib.get_close_matches(name, flows, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"flows: {names_text(flows)}"
        raise UnknownFlow(f"no flow {name!r}; {hint}")
    if as_json:
        output.document({"name": name, **flows[name]})
        return
    _print_flow(name, flows[name])


def enabled_here() -> tuple[str, ...]:
    """Return this machine's setting ``enabled_flows``: names of flows."""
    from perdure.worker.settings import load_settings

    return load_settings().enabled_flows


def _workers_text(name: str, flow: dict[str, Any]) -> str:
    if flow["paused"]:
        return f"paused; perdure flows unpause {name}"
    if flow["workers"]:
        return count(len(flow["workers"]), "worker")
    if flow.get("missing"):
        return f"none; {'; '.join(flow['missing'])}"
    if engine_here() is not None:
        return "none; celery -A ... worker"
    return "none; perdure worker" + (f" --enable {name}" if flow["runs_shell"] else "")


def _print_flow(name: str, flow: dict[str, Any]) -> None:
    pairs = [
        ("flow", name),
        ("description", plain(flow["description"])),
        ("workers", _workers_text(name, flow)),
    ]
    pairs += [] if flow.get("needs_goal", True) else [("goal", "not needed")]
    pairs.append(("nodes", ", ".join(f"{node} ({role})" for node, role in flow["nodes"].items())))
    pairs += [("max rounds", str(flow["max_rounds"]))] if flow["max_rounds"] is not None else []
    limits = flow.get("budgets") or {}  # A worker of an older release announces no budgets.
    pairs += (
        [("budgets", ", ".join(f"{key} {amount(key, limit)}" for key, limit in limits.items()))]
        if limits
        else []
    )
    pairs += [("missing", ", ".join(map(plain, flow["missing"])))] if flow.get("missing") else []
    pairs += [
        (key.replace("_", " "), ", ".join(flow[key]))
        for key in ("interrupt_before", "interrupt_after")
        if flow[key]
    ]
    pairs += [("exposed to", ", ".join(flow["expose"]))] if flow.get("expose") else []
    output.fields(pairs)
    schema = flow["inputs"]
    if schema is None:
        click.echo("inputs are not validated")
        return
    required = schema.get("required", [])
    rows = [
        (
            key,
            _type_text(field),
            "required" if key in required else f"default {json.dumps(field.get('default'))}",
            plain(field.get("description", "")),
        )
        for key, field in schema.get("properties", {}).items()
    ]
    if sys.stdout.isatty() and rows:
        click.echo()
    output.table(("input", "type", "", "description"), rows, "description", "no inputs")
    if schema.get("description") and sys.stdout.isatty():
        click.echo("\n" + schema["description"])


def _type_text(schema: dict[str, Any]) -> str:
    """Return a JSON Schema's type as text: ``array of string``.

    For a reference, it is the referred name. Without a type, it is ``any``.
    """
    if "anyOf" in schema:
        return " or ".join(_type_text(each) for each in schema["anyOf"])
    name = str(schema.get("type", schema.get("$ref", "any"))).rpartition("/")[2]
    has_items = name == "array" and "items" in schema
    return f"{name} of {_type_text(schema['items'])}" if has_items else name
