"""The command ``notifications``: list undelivered ones, send them again, try a rule."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import click

from perdure.worker.cli import output
from perdure.worker.cli.exit_codes import Failed
from perdure.worker.cli.main import Commands
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import state_client_for
from perdure.worker.presentation.text import count, moment, plain

if TYPE_CHECKING:
    from perdure.worker.features.notifications.client import Notifications
    from perdure.worker.features.notifications.notification import Notification

#: Seconds between two checks whether a test was delivered.
LOOK_SECONDS = 0.1
#: Exit code of a test that was not delivered.
NOT_DELIVERED = 8


class NotificationCommands(Commands):
    """The group of ``notifications`` and its subcommands."""

    commands_here: ClassVar[Mapping[str, tuple[str, str]]] = {
        "list": (__name__, "List notifications that were not delivered."),
        "send": (__name__, "Send notifications again."),
        "delete": (__name__, "Delete dead notifications."),
        "test": (__name__, "Try a rule, and wait for its delivery."),
    }


@click.command(
    "notifications",
    cls=NotificationCommands,
    epilog="docs/guides/notifications.md describes the rules.",
)
def notifications_command() -> None:
    """List the notifications that wait or are dead, and send them again.

    Workers deliver them, by the rules of their setting notify.
    """


@click.command("list")
@click.option("--dead", "only_dead", is_flag=True, help="Only those whose delivery was given up.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Show at most N of each kind.",
)
@json_option
@url_option
def list_command(only_dead: bool, limit: int, as_json: bool, url: str | None) -> None:
    """List the dead notifications, newest first, then those that wait for their next attempt."""
    from perdure.worker.features.notifications.client import Notifications

    with state_client_for(url) as client:
        notifications = Notifications(client)
        found = notifications.dead(limit)
        if not only_dead:
            found += notifications.waiting(limit)
    if as_json:
        output.document([each.to_dict() for each in found])
        return
    columns = ("id", "state", "rule", "event", "run", "attempts", "next attempt", "error")
    rows = [
        (
            each.id,
            "dead" if each.dead_at else "waiting",
            each.rule,
            each.event,
            each.run_id,
            str(each.attempts),
            moment(each.due_at) if each.due_at else "",
            plain(each.error or ""),
        )
        for each in found
    ]
    output.table(columns, rows, "error", "all notifications were delivered", spare=("event",))


@click.command("send")
@click.argument("notification_ids", metavar="[ID]...", nargs=-1)
@click.option("--all-dead", is_flag=True, help="All dead notifications.")
@json_option
@url_option
def send_command(
    notification_ids: tuple[str, ...], all_dead: bool, as_json: bool, url: str | None
) -> None:
    """Send the notifications ID... again, now: dead ones, or those that wait."""
    from perdure.worker.features.notifications.client import Notifications

    if all_dead == bool(notification_ids):
        raise click.UsageError("Expected ID..., or --all-dead.")
    with state_client_for(url) as client:
        notifications = Notifications(client)
        if all_dead:
            sent = notifications.send_dead_again()
        else:
            notifications.send_again(notification_ids)
            sent = len(notification_ids)
    if as_json:
        output.document({"due": sent})
    else:
        click.echo(f"{count(sent, 'notification')} due now")


@click.command("delete")
@click.argument("notification_ids", metavar="ID...", nargs=-1, required=True)
@json_option
@url_option
def delete_command(notification_ids: tuple[str, ...], as_json: bool, url: str | None) -> None:
    """Delete the dead notifications ID..., which are then never sent."""
    from perdure.worker.features.notifications.client import Notifications

    with state_client_for(url) as client:
        Notifications(client).delete(notification_ids)
    if as_json:
        output.document({"deleted": len(notification_ids)})
    else:
        click.echo(f"{count(len(notification_ids), 'notification')} deleted")


@click.command("test")
@click.argument("rule")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Wait at most SECONDS for the delivery.",
)
@json_option
@url_option
def test_command(rule: str, timeout: float, as_json: bool, url: str | None) -> None:
    """Send a notification of the type "test" by RULE, through a worker, and wait for it."""
    from perdure.worker.features.notifications.client import Notifications

    with state_client_for(url) as client:
        notifications = Notifications(client)
        made = notifications.try_rule(rule)
        left = _wait(notifications, made.id, timeout)
    if as_json:
        output.document({"id": made.id, "delivered": left is None, "error": left and left.error})
    if left is not None:
        why = left.error or "no worker with this rule runs"
        raise Failed(f"not delivered within {timeout:g} s, {made.id}: {why}", NOT_DELIVERED)
    if not as_json:
        click.echo(f"delivered: {made.id}")


def _wait(notifications: Notifications, sent: str, timeout: float) -> Notification | None:
    """Wait until a notification is delivered, at most ``timeout`` seconds.

    Args:
        sent: The id of the notification.

    Returns:
        None if it was delivered. Otherwise the notification: its first attempt failed, or the time
            is over.
    """
    end = time.monotonic() + timeout
    while True:
        left = notifications.get(sent)
        if left is None or left.attempts > 0 or time.monotonic() >= end:
            return left
        time.sleep(LOOK_SECONDS)
