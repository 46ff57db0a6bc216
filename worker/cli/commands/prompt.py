"""The output of ``show --prompt``: the prompt of a round for its model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from perdure.worker.cli import output
from perdure.worker.presentation.text import count, lines, plain

if TYPE_CHECKING:
    from perdure.worker.client.read_api import ReadApi

#: Text that says whether a prompt was sent as shown, by the prompt's field ``exact``.
EXACT = {
    True: "sent, exactly as shown",
    False: (
        "sent, but not exactly as shown: it also depended on what the run does not keep (values of "
        "that time, an answer of a person, an earlier version of the flow)"
    ),
    None: "not sent yet: what the next round would send",
}


def print_prompt(client: ReadApi, run_id: str, step: int, as_json: bool) -> None:
    """Print the prompt of a step's round for its model.

    For the run's next step, it is the prompt that the round would send now. With ``as_json``, print
    one JSON document.

    Raises:
        InvalidInput: The step has no prompt.
        UnknownFlow: This process (or the HTTP server, if the client uses one) does not know the
            run's flow.
    """
    document = client.prompt(run_id, step)
    if as_json:
        output.document(document)
        return
    click.echo(
        f"run {run_id}, step {step}, node {plain(document['node'])}: {EXACT[document['exact']]}"
    )
    for message in document["messages"]:
        click.echo(f"\n--- {_head(message)}")
        for text in _texts(message):
            click.echo(lines(text))
    if document["tools"]:
        click.echo(f"\n--- {count(len(document['tools']), 'tool')}")
        for tool in document["tools"]:
            click.echo(plain(f"{tool['name']}: {tool.get('description') or ''}"))
            click.echo(f"  {plain(json.dumps(tool['parameters'], ensure_ascii=False))}")


def _head(message: Mapping[str, Any]) -> str:
    if message["role"] == "tool":
        return plain(f"result of {message['name']} ({message['call']})")
    return str(message["role"])


def _texts(message: Mapping[str, Any]) -> list[str]:
    calls = [
        f"calls {call['name']} {call['arguments']} ({call['call']})"
        for call in message.get("calls", ())
    ]
    size = message.get("bytes_of_own_form")
    own = [f"(sent in the provider's own form, {size:,} bytes)"] if size else []
    return [*([message["text"]] if message["text"] else []), *calls, *own]
