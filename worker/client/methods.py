"""The methods of all clients that are derived from operations, without those of ReadMethods."""

from __future__ import annotations

from perdure.worker.features.clients import EveryClientFeatures
from perdure.worker.operations import (
    control,
    fleet,
    fork,
    limits,
    replies,
    resume,
    signals,
    stuck,
    submit,
    threads,
)
from perdure.worker.operations.operation import method


class Methods(EveryClientFeatures):
    """The derived methods of every client, without those of ``ReadMethods``."""

    submit = method(submit.submit)
    fork = method(fork.fork)
    conversation = method(threads.conversation)

    request_stop = method(control.request_stop)
    resume = method(resume.resume)
    add = method(limits.add)
    retry = method(control.retry)
    delete = method(control.delete)

    signal = method(signals.signal)
    say = method(signals.say)
    reply = method(replies.reply)

    stuck = method(stuck.stuck)

    flows = method(fleet.flows)
    pause_flow = method(fleet.pause_flow)
    unpause_flow = method(fleet.unpause_flow)
    paused_flows = method(fleet.paused_flows)
    workers = method(fleet.workers)
    queues = method(fleet.queues)
    dead_letters = method(fleet.dead_letters)
    doctor = method(fleet.doctor)
