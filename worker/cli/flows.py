"""flows: what can be submitted."""

from __future__ import annotations

import difflib
import json
import sys
from typing import Any

import click

from worker.announcement import shown
from worker.cli import output
from worker.cli.exits import NOT_FOUND, Failed
from worker.cli.flows_words import WithWords
from worker.cli.options import json_option, url_option
from worker.cli.server import client_for
from worker.words.costs import amount
from worker.words.texts import count, plain


@click.command("flows", cls=WithWords)
@click.argument("name", required=False)
@click.option("--all", "all_of_them", is_flag=True, help="Also those that came with Holdfast and are not enabled.")
@json_option
@url_option
def flows_command(name: str | None, all_of_them: bool, as_json: bool, url: str | None) -> None:
    """The flows that this machine or a live worker knows; with NAME, what that one expects."""
    with client_for(url) as client:
        paused = client.paused_flows()
        flows = {key: {**flow, "paused": key in paused} for key, flow in client.flows().items()}
    if name is None:
        every = flows
        flows = flows if all_of_them or as_json else shown(flows, enabled_here())
        if as_json:
            output.document(flows)
            return
        rows = [(key, _played(key, flow), plain(flow["description"])) for key, flow in flows.items()]
        output.table(("flow", "played by", "what it does"), rows, "what it does", "no flows", spare=("played by",))
        if len(flows) < len(every) and sys.stdout.isatty():
            click.echo(f"{len(every) - len(flows)} more came with Holdfast; --all shows them")
        return
    if name not in flows:
        near = difflib.get_close_matches(name, flows, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(flows)}"
        raise Failed(f"no flow is named {name!r}; {hint}", NOT_FOUND)
    if as_json:
        output.document({"name": name, **flows[name]})
        return
    _tell(name, flows[name])


def enabled_here() -> tuple[str, ...]:
    """The flows that the settings here enable."""
    from worker.settings import load_settings

    return load_settings().enabled_flows


def _played(name: str, flow: dict[str, Any]) -> str:
    if flow["paused"]:
        return f"paused; holdfast flows unpause {name}"
    if flow["workers"]:
        return count(len(flow["workers"]), "worker")
    if flow.get("missing"):
        return f"none; {'; '.join(flow['missing'])}"
    return "none; holdfast worker" + (f" --enable {name}" if flow["runs_shell"] else "")


def _tell(name: str, flow: dict[str, Any]) -> None:
    pairs = [("flow", name), ("what it does", plain(flow["description"])), ("played by", _played(name, flow))]
    pairs.append(("nodes", ", ".join(f"{node} ({role})" for node, role in flow["nodes"].items())))
    pairs += [("max rounds", str(flow["max_rounds"]))] if flow["max_rounds"] is not None else []
    limits = flow.get("budgets") or {}  # an older worker announces none
    pairs += [("budgets", ", ".join(f"{key} {amount(key, limit)}" for key, limit in limits.items()))] if limits else []
    pairs += [("missing", ", ".join(map(plain, flow["missing"])))] if flow.get("missing") else []
    pairs += [(key.replace("_", " "), ", ".join(flow[key])) for key in ("interrupt_before", "interrupt_after") if flow[key]]
    output.fields(pairs)
    schema = flow["inputs"]
    if schema is None:
        click.echo("inputs are taken as given")
        return
    required = schema.get("required", [])
    rows = [
        (
            key,
            _kind(what),
            "required" if key in required else f"default {json.dumps(what.get('default'))}",
            plain(what.get("description", "")),
        )
        for key, what in schema.get("properties", {}).items()
    ]
    if sys.stdout.isatty() and rows:
        click.echo()
    output.table(("input", "kind", "", "meaning"), rows, "meaning", "no inputs")
    if schema.get("description") and sys.stdout.isatty():
        click.echo("\n" + schema["description"])


def _kind(what: dict[str, Any]) -> str:
    if "anyOf" in what:
        return " or ".join(_kind(each) for each in what["anyOf"])
    kind = str(what.get("type", what.get("$ref", "any"))).rpartition("/")[2]
    return f"{kind} of {_kind(what['items'])}" if kind == "array" and "items" in what else kind
