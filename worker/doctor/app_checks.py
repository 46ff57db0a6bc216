"""The doctor's checks of the Celery app, of this process, and of damaged data.

They cover the app's settings, how this process and the workers publish messages, dead letters and
damaged runs. They also cover the flows of this process, the API key for its model, and the sandbox
of shell commands.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.secrets import is_reference
from perdure.worker.domain.verdict import Finding, Level, ok, refused, unknown, warning
from perdure.worker.messaging.publisher import Publisher
from perdure.worker.private_parts.table import PrivatePart, changed_parts, explained
from perdure.worker.settings import Settings
from perdure.worker.store.inspection import Inspection

if TYPE_CHECKING:
    from celery import Celery

JSON = {"json", "application/json"}
PICKLE = {"pickle", "application/x-python-serialize"}


def app_findings(app: Celery, own: bool) -> list[Finding]:
    """Run the checks of a Celery app's settings. Return their findings.

    Args:
        app: The app.
        own: Whether the app is Perdure's own. In a user's app, a setting that weakens security or
            speed is only a warning, because the user decides it.
    """
    level = Level.REFUSED if own else Level.WARNING
    return [
        _content(app),
        _queue_names(app),
        _pickle(app, level),
        _prefetch(app, level),
        _prefetch_multiplier(app),
        _remote_control(app, level),
        _eager(app),
        private_parts(changed_parts()),
    ]


def private_parts(changed: list[PrivatePart]) -> Finding:
    """Return the finding about the private parts of Celery and kombu that Perdure uses.

    Args:
        changed: The parts that the installed versions lack or have changed. Empty: the check
            passes.
    """
    check = "private-parts"
    if changed:
        return warning(
            check,
            explained(changed),
            "Install versions that Perdure knows, or a newer Perdure: "
            "docs/internals/private-parts.md",
        )
    return ok(check, "Celery and kombu have the private parts that Perdure uses")


def _content(app: Celery) -> Finding:
    """Check that the app's workers accept JSON. Every round's message is JSON."""
    check, accepted = "accept-content", set(app.conf.accept_content or ())
    if not accepted & JSON:
        return refused(
            check,
            f"the app's workers accept {', '.join(sorted(accepted)) or 'nothing'} and no "
            "JSON: they would refuse every round's message",
            "Add 'json' to accept_content; the app's own tasks can keep their format",
        )
    return ok(check, "the app accepts JSON")


def _queue_names(app: Celery) -> Finding:
    """Check that kombu's options leave each queue in the Redis list with the queue's own name.

    Perdure pushes the messages of rounds to lists with these names. With a ``global_keyprefix``, or
    without the priority step 0, the app's workers read other lists.
    """
    check, options = "queue-names", app.conf.broker_transport_options or {}
    if options.get("global_keyprefix"):
        name, use = "global_keyprefix", "no prefix (databases of a server keep apps apart as well)"
    elif 0 not in options.get("priority_steps", (0,)):
        name, use = "priority_steps", "steps that begin with 0"
    else:
        return ok(check, "the app's lists are named like their queues")
    return refused(
        check,
        f"broker_transport_options sets {name} to {options[name]!r}: "
        "the app's workers would read other lists than those of the rounds",
        f"Use {use}, or play rounds with an app of their own (celery -A perdure.app worker)",
    )


def _pickle(app: Celery, level: Level) -> Finding:
    """Check that the app's workers accept no pickle."""
    check, accepted = "pickle", PICKLE & set(app.conf.accept_content or ())
    if accepted:
        return Finding(
            check,
            level,
            "the app accepts pickle: anyone who can write to the broker can run any code in "
            "its workers",
            "Remove it from accept_content",
        )
    return ok(check, "the app accepts no pickle")


def _prefetch(app: Celery, level: Level) -> Finding:
    """Check that Celery's setting ``worker_disable_prefetch`` is off.

    With it, rounds would wait although a worker has free slots.
    """
    check = "prefetch"
    if app.conf.worker_disable_prefetch:
        return Finding(
            check,
            level,
            "worker_disable_prefetch is on: with the thread pool the worker starves, "
            "and rounds wait although slots are free",
            "Turn it off; worker_prefetch_multiplier = 1 and late acknowledgement keep a "
            "round from waiting behind another",
        )
    return ok(check, "worker_disable_prefetch is off")


def _prefetch_multiplier(app: Celery) -> Finding:
    """Check that Celery prefetches at most one message for each slot of a worker."""
    check, multiplier = "prefetch-multiplier", app.conf.worker_prefetch_multiplier
    if multiplier != 1:
        return warning(
            check,
            f"worker_prefetch_multiplier is {multiplier or 'unlimited'}: "
            "a worker takes messages before it has a free slot. "
            "A round may wait there behind the app's own tasks although another worker is "
            "free, and is then sent again",
            "Set worker_prefetch_multiplier = 1, or run workers for rounds alone: "
            "celery -A APP worker -Q PREFIX.controller,PREFIX.executor",
        )
    return ok(check, "a worker takes at most one message per slot in advance")


def _eager(app: Celery) -> Finding:
    """Check that Celery's setting ``task_always_eager`` is off.

    With it, the app's own tasks run in the calling process, but rounds still go to workers.
    """
    check = "always-eager"
    if app.conf.task_always_eager:
        return warning(
            check,
            "task_always_eager is on: the app's own tasks run in the calling process, "
            "but rounds still go to workers",
            "Use it in tests only; rounds need a worker",
        )
    return ok(check, "task_always_eager is off")


def _remote_control(app: Celery, level: Level) -> Finding:
    """Check that Celery's setting ``worker_enable_remote_control`` is off."""
    check = "remote-control"
    if app.conf.worker_enable_remote_control:
        return Finding(
            check,
            level,
            "remote control is on: anyone who can write to the broker can end the app's "
            "workers, and each worker polls a queue of its own",
            "If you do not use celery inspect, status or Flower's buttons, set "
            "worker_enable_remote_control = False; perdure workers and perdure stop work without",
        )
    return ok(check, "remote control is off")


def handover(dispatcher: Publisher, announced: Mapping[str, str]) -> Finding:
    """Check that this process publishes messages in the same way as the live workers.

    The ways are ``fused`` (the state server is the broker) and ``outbox``. With ``outbox``, check
    also that the broker answers.

    Args:
        dispatcher: The publisher of this process.
        announced: The way of each live worker, by the worker's name.
    """
    check = "handover"
    others = [worker for worker, name in announced.items() if name != dispatcher.name]
    if others:
        return warning(
            check,
            f"this process publishes messages the {dispatcher.name} way, "
            f"and {', '.join(others[:3])} another way: "
            "its messages reach no worker until the sweep has sent them again",
            "Give every process the same broker_url (PERDURE_BROKER_URL) and redis_url",
        )
    if not dispatcher.outbox:
        return ok(
            check,
            "fused: runs and messages are on one server, so a commit and its message are one write",
        )
    if not dispatcher.lengths():
        return warning(
            check,
            "the broker does not answer: runs are stored, and wait for it",
            "Check that it runs, and that broker_url (PERDURE_BROKER_URL) is right",
        )
    return ok(
        check,
        "outbox: messages are published to the broker after each commit, and again if one was lost",
    )


#: Maximum number of damaged runs that a finding names.
NAMED = 10


def dead_letters(inspection: Inspection, key: str) -> Finding:
    """Check that there are no dead letters: invalid messages that workers refused.

    ``key`` is the Redis key of the dead letters, for the remedy.
    """
    check = "dead-letters"
    if inspection.dead_letters is None:
        return unknown(
            check, "the dead letters cannot be counted", f"Allow this user to read {key}"
        )
    if inspection.dead_letters:
        return warning(
            check,
            f"{inspection.dead_letters} invalid messages were refused and stored as dead letters",
            f"LRANGE {key} 0 9 shows the newest ones and why; "
            f"find out who writes to the queues, then DEL {key}",
        )
    return ok(check, "no message was refused")


def quarantined_runs(inspection: Inspection) -> Finding:
    """Check that no run is damaged, and no Redis key that runs share."""
    check = "quarantined-runs"
    if inspection.damage is None:
        return unknown(
            check, "the runs cannot be read", "Allow this user to read the keys under the prefix"
        )
    if inspection.damage:
        examples = "; ".join(
            f"{name} ({what})" for name, what in list(inspection.damage.items())[:NAMED]
        )
        return warning(
            check,
            f"{len(inspection.damage)} runs or shared keys are damaged: {examples}",
            f"See perdure why {next(iter(inspection.damage))}, "
            "and find out who wrote to the server",
        )
    return ok(check, "no run is damaged")


def flows_loaded(failures: Mapping[str, str], lacking: Mapping[str, str]) -> Finding:
    """Check that this process can load all its flows, and can run them.

    Args:
        failures: The errors of loading, by the name of the package, module or file.
        lacking: The reason why a loaded flow cannot run here, by the flow's name.
    """
    check = "flows-loaded"
    if lacking and not failures:
        return warning(
            check,
            "; ".join(f"flow {name} cannot run here: {what}" for name, what in lacking.items()),
            "A worker like this process leaves their runs to other workers",
        )
    if failures:
        reasons = "; ".join(f"{what} ({why})" for what, why in failures.items())
        return warning(
            check,
            f"flows could not be loaded here: {reasons}",
            "Fix or uninstall them; a worker without a flow leaves its runs to other workers",
        )
    return ok(check, "all flows are loaded")


def sandbox(settings: Settings) -> Finding:
    """Check that this machine can start the containers in which shell commands run.

    The check passes if no flow with shell commands is enabled here, or if no sandbox is set.
    """
    check = "sandbox"
    if not settings.enabled_flows:
        return ok(check, "no flow that runs shell commands is enabled here")
    if settings.sandbox is None:
        return ok(check, "no sandbox is set here; run_shell runs as the worker's user")
    from perdure import Container  # Its import imports all commands.

    runtime, _, image = settings.sandbox.partition(":")
    try:
        missing = Container(image, cast(Any, runtime)).missing
    except InvalidFlow as error:
        return refused(check, str(error), "Correct the setting sandbox (PERDURE_SANDBOX)")
    if missing is not None:
        return refused(
            check,
            f"shell commands cannot run in {settings.sandbox}: {missing}",
            "Install it, or correct the setting sandbox (PERDURE_SANDBOX)",
        )
    return ok(check, f"shell commands run in {settings.sandbox}")


#: By provider: the environment variables for its API key, of which one must be set. Other providers
#: are not checked.
KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-gla": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}


def model_key(settings: Settings) -> Finding:
    """Check that this process's environment has the API key of the model in the settings.

    The check passes if no model is set, or if Perdure does not know which key the model needs.
    """
    check = "model"
    if settings.model is None and settings.model_url is None:
        return ok(
            check, "no model is set here; flows that need one must name it, or are not played"
        )
    what = settings.model or "the server at model_url"
    if settings.model_key is not None and is_reference(settings.model_key):
        names: tuple[str, ...] = (settings.model_key.removeprefix("env:"),)
    elif settings.model_url is not None:
        return ok(check, "the model is on your own server, which may need no key")
    else:
        names = KEYS.get((settings.model or "").partition(":")[0], ())
    if names and not any(os.environ.get(name, "").strip() for name in names):
        return warning(
            check,
            f"no API key for {what}: {' or '.join(names)} is not set here",
            f"Set {names[0]} in the environment of the workers and restart them; until then, "
            "rounds that ask this model fail",
        )
    return ok(
        check,
        f"the key for {what} is set" if names else f"whether {what} needs a key is unknown here",
    )
