"""The sending of a notification to its receiver: a webhook, a command or a Celery task."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from perdure.worker.domain.token import digest_of
from perdure.worker.features.notifications.notification import NotDelivered, Notification
from perdure.worker.features.notifications.rules import NotificationRule
from perdure.worker.features.notifications.webhooks import send_webhook
from perdure.worker.store.tables import SignInCodes

if TYPE_CHECKING:
    from celery import Celery

    from perdure.worker.store import Store

#: Milliseconds for which the link of a notification can sign in: a day.
SIGN_IN_MS = 86_400_000
#: Seconds that a command may run.
COMMAND_SECONDS = 30.0
#: Characters of a command's error output that the record of a failure has.
OUTPUT_SHOWN = 300


class NotificationSender:
    """Sends notifications, for one worker process.

    Args:
        app: the Celery app that publishes tasks.
        owns_app: whether the app is Perdure's own, which knows only the queues of rounds.
        private: whether webhooks may go to addresses that are not public.
    """

    def __init__(self, app: Celery, store: Store, owns_app: bool, private: bool) -> None:
        self._app = app
        self._store = store
        self._owns_app = owns_app
        self._private = private
        self._publisher: Celery | None = None

    def send(self, rule: NotificationRule, notification: Notification) -> None:
        """Send a notification to the receiver of its rule. Make one attempt.

        A Celery task is only published. Its execution is not awaited.

        Raises:
            NotDelivered: the receiver did not accept the notification, or the task could not be
                published.
        """
        if rule.sign_in is not None and notification.body["data"].get("link"):
            notification = self._with_sign_in(rule.sign_in, notification)
        if rule.webhook is not None:
            body = json.dumps(notification.body, ensure_ascii=False).encode()
            send_webhook(rule.webhook, notification.id, body, rule.secret, private=self._private)
        elif rule.command is not None:
            run_command(rule.command, notification)
        elif rule.task is not None:
            self._publish_notification(rule.task, rule.queue, notification)

    def _with_sign_in(self, token_id: str, notification: Notification) -> Notification:
        """Return the notification with a link that signs its reader in once.

        The link has a new one-time code on each attempt. So the store needs only the digest of a
        code, and the record of the notification has none.

        Args:
            token_id: the id of the access token with which the link signs in.
        """
        code = secrets.token_urlsafe(32)
        SignInCodes(self._store).put(digest_of(code), token_id, SIGN_IN_MS)
        data = notification.body["data"]
        pages, _, run = data["link"].rpartition("/runs/")
        here = f"{urlsplit(pages).path}/runs/{run}"
        link = f"{pages}/sign-in?{urlencode({'code': code, 'next': here})}"
        return replace(notification, body={**notification.body, "data": {**data, "link": link}})

    def _publish_notification(
        self, task: str, queue: str | None, notification: Notification
    ) -> None:
        from perdure.worker.messaging.callbacks import publisher_like

        if self._owns_app and queue is None:
            raise NotDelivered(
                f"the rule {notification.rule} calls the task {task} and names no queue; a worker "
                "of Perdure's own knows none. Add queue to the rule",
                concerns_receiver=True,
            )
        if self._publisher is None:
            self._publisher = publisher_like(self._app) if self._owns_app else self._app
        options = {} if queue is None else {"queue": queue}
        try:
            self._publisher.send_task(
                task, args=(message_of(notification),), retry=False, **options
            )
        except Exception as error:  # of kombu, and of every broker's library
            raise NotDelivered(
                f"the task {task} was not published: {type(error).__name__}: {error}",
                concerns_receiver=True,
            ) from error


def message_of(notification: Notification) -> dict[str, Any]:
    """Return the JSON data for a command or a Celery task: the body, and the notification's id."""
    return {"id": notification.id, **notification.body}


def run_command(command: tuple[str, ...], notification: Notification) -> None:
    """Run a rule's command once, with the notification as JSON on its standard input.

    The command's arguments may name facts: ``{type}``, ``{run_id}``, ``{flow}``, ``{status}``,
    ``{link}`` and ``{text}``, a sentence for people. No shell reads the arguments.

    Raises:
        NotDelivered: the command could not be started, or it did not end with exit code 0 within
            ``COMMAND_SECONDS``. After this time it is killed.
    """
    facts = facts_of(notification)
    arguments = [filled(each, facts) for each in command]
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise NotDelivered(
            f"the command {command[0]} could not be started: {error}", concerns_receiver=True
        ) from error
    with process:
        text = json.dumps(message_of(notification), ensure_ascii=False).encode()
        try:
            _, told = process.communicate(text, timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise NotDelivered(
                f"the command {command[0]} did not end within {COMMAND_SECONDS:g} s",
                concerns_receiver=True,
            ) from error
    if process.returncode != 0:
        output = told.decode("utf-8", "replace").strip()[-OUTPUT_SHOWN:]
        raise NotDelivered(
            f"the command {command[0]} ended with exit code {process.returncode}"
            + (f": {output}" if output else "")
        )


def facts_of(notification: Notification) -> dict[str, str]:
    """Return the facts that a command's arguments can name, by name."""
    data = notification.body["data"]
    return {
        "type": str(notification.body["type"]),
        "run_id": notification.run_id,
        "flow": notification.flow,
        "status": str(data.get("status", "")),
        "link": str(data.get("link") or ""),
        "text": sentence(notification),
    }


def filled(argument: str, facts: Mapping[str, str]) -> str:
    """Return a command's argument with facts in place of the names in braces.

    A name in braces that is not in ``facts`` stays as it is.
    """
    for name in facts:
        # A fact is not searched for further names, since a goal may have any text.
        argument = argument.replace(f"{{{name}}}", f"\0{name}\0")
    for name, text in facts.items():
        argument = argument.replace(f"\0{name}\0", text.replace("\0", ""))
    return argument


def sentence(notification: Notification) -> str:
    """Return a sentence for people about the notification's event."""
    data = notification.body["data"]
    if not notification.run_id:
        return f"Test of the notification rule {notification.rule}."
    words = {
        "waiting": "waits for a person",
        "in_doubt": "does not know whether a command was executed",
        "errored": "has ended with an error",
        "completed": "has completed",
        "stopped": "was stopped",
    }
    head = f"Run {notification.run_id} of {notification.flow} {words[notification.event]}"
    more = data["question"]["text"] if data["question"] else data["error"] or data["goal"]
    return f"{head}: {more}" if more else f"{head}."
