"""Pauses at the places that TESTS_JITTER names, in every Python process that a test starts.

The tool puts this folder first on PYTHONPATH, and Python imports ``sitecustomize`` when it starts.
So the pauses reach workers, their children, commands and the processes that those start. The
product is not edited: a module is wrapped when it has been imported. This file imports nothing of
the repository, because a process of a test may not have the repository on its path.

TESTS_JITTER is a list such as ``behind-claim=0.25,first-look=0.3`` (place and seconds).
TESTS_JITTER_LOG is the file to which each pause appends a line: the process id and the place.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from contextlib import suppress
from time import sleep

#: Only rounds below this step pause. Otherwise a test of a hundred rounds would take minutes.
FIRST_ROUNDS = 3
#: Only commits that this package makes pause, not commits of a test itself.
ENGINE = "perdure.worker.engine."


def parse_pauses(text):
    """Return the seconds of a pause by place."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {place: float(seconds) for place, _, seconds in pairs}


PAUSES = parse_pauses(os.environ.get("TESTS_JITTER", ""))
LOG = os.environ.get("TESTS_JITTER_LOG", os.devnull)


def pause(place):
    """Pause, if this place is asked for, and append a line to the log."""
    if place not in PAUSES:
        return
    # A test may have taken away the process's rights or file descriptors.
    with suppress(OSError):
        file = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(file, f"{os.getpid()} {place}\n".encode())
        finally:
            os.close(file)
    sleep(PAUSES[place])


def wrap_rounds(module):
    """Make the round runner pause before it claims a round, and before a claimed round begins."""
    runner = module.RoundRunner
    claim, run = runner._claim, runner._run

    def claim_later(self, run_id, epoch, step):
        if step < FIRST_ROUNDS:
            pause("before-claim")
        return claim(self, run_id, epoch, step)

    def run_later(self, run_id, granted, fast):
        if int(granted.fields["step"]) < FIRST_ROUNDS:
            pause("behind-claim")
        return run(self, run_id, granted, fast)

    runner._claim, runner._run = claim_later, run_later


def wrap_store(module):
    """Make both scripts that commit a round pause before and behind the call."""
    for name in ("commit_and_fetch", "commit_and_continue"):
        rounds = module.RoundTransitions
        setattr(rounds, name, commit_later(getattr(rounds, name)))


def commit_later(commit):
    """Return a method of the store that pauses before and behind the commits of the engine."""

    def paused(self, run_id, **options):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if not caller.startswith(ENGINE) or options["step"] >= FIRST_ROUNDS:
            return commit(self, run_id, **options)
        pause("before-commit")
        reply = commit(self, run_id, **options)
        pause("behind-commit")
        return reply

    return paused


def look_late(name):
    """Return the wrapper that makes a module's function, which polls its first argument, look late."""

    def wrap(module):
        poll = getattr(module, name)

        def poll_late(holds, *others, **options):
            places = ["first-look"]

            def look():
                pause(places.pop() if places else "next-look")
                return holds()

            return poll(look, *others, **options)

        setattr(module, name, poll_late)

    return wrap


#: The changes to a module once it has been imported.
WRAPPERS = {
    "perdure.worker.engine.rounds": wrap_rounds,
    "perdure.worker.store.rounds": wrap_store,
    "tests.support.waits": look_late("until"),
    "tests.support.os_processes": look_late("wait_for"),
}


class Finder:
    """Finds nothing by itself: it makes the loader of a module in ``WRAPPERS`` wrap the module."""

    def find_spec(self, name, path=None, target=None):
        """Return the spec that the other finders have for one of the modules, or None."""
        if name not in WRAPPERS:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    wrap_loader(spec.loader)
                    return spec
        return None


def wrap_loader(loader):
    """Make a loader wrap modules that it has executed.

    pytest has one loader for all modules of tests, so the wrapper looks at the module's name.
    """
    execute = loader.exec_module
    if getattr(execute, "wraps_modules", False):
        return

    def exec_module(module):
        execute(module)
        if module.__name__ in WRAPPERS:
            WRAPPERS[module.__name__](module)

    exec_module.wraps_modules = True
    loader.exec_module = exec_module


def lead():
    """Put the finder before other finders, which may have been installed since."""
    if FINDER in sys.meta_path:
        sys.meta_path.remove(FINDER)
        sys.meta_path.insert(0, FINDER)


def import_next():
    """Import the ``sitecustomize`` hidden by this one, if any."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


FINDER = Finder()
if PAUSES:
    sys.meta_path.insert(0, FINDER)
import_next()
