"""CallerRights: the base of the client of a caller. It checks scopes and the owners of runs.

Most operations are authorized here, by the facts of each ``Operation``. The methods of
``AuthorizedClient`` that are not derived from operations call the same checks.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from perdure.worker.client import Client
from perdure.worker.client.connection import session_of
from perdure.worker.client.results import id_of
from perdure.worker.domain.token import WIDER
from perdure.worker.operations.arguments import CALLER_ARGUMENTS, OWN_NAMES, RUN_ARGUMENTS
from perdure.worker.operations.operation import Operation, Owner
from perdure.worker.operations.session import CallerSession, not_found
from perdure.worker.operations.submit import run_exists
from perdure.worker.store.lookups import is_there
from perdure.worker.web.auth.authenticate import Caller, Forbidden, Scope
from perdure.worker.web.auth.own_names import as_sent, errors_name, own_name

R = TypeVar("R")


class CallerRights:
    """The rights of a caller to operations, and to the runs of owners.

    Args:
        client: The client that is limited to these rights.
        caller: The caller, with their scopes.
    """

    def __init__(self, client: Client, caller: Caller) -> None:
        self.client = client
        self._session = CallerSession(session_of(client))
        self.caller = caller

    def _perform(self, operation: Operation[Any, R], bound: inspect.BoundArguments) -> R:
        """Carry an operation out in the caller's name.

        The caller needs the right to it. Idempotency keys and topics belong to the caller: they
        never match those of another owner.

        Args:
            bound: The arguments of the operation. They are changed: the owner, topics and
                idempotency keys become those of the caller.

        Raises:
            RunExists: A submission names a run that exists and belongs to another owner.
        """
        arguments, caller = bound.arguments, self.caller
        caller.require(operation.scope)
        if operation.owner is not Owner.CALLER:
            for name in RUN_ARGUMENTS:
                if arguments.get(name) is not None:
                    self._owned(arguments[name], operation.scope)
        if "run" in arguments:
            # A new run begins with the rounds of this one, so the caller has to be able to read it.
            if caller.limited_to(Scope.READ) is not None:
                self._owned(id_of(arguments["run"]), operation.scope)
            caller.require(Scope.READ)
        if operation.owner is Owner.ALL and caller.limited_to(operation.scope) is not None:
            caller.require(WIDER.get(operation.scope, Scope.ADMIN))
        if operation.owner is Owner.SUBMITTER:
            owner = caller.limited_to(operation.scope)
            arguments["submitted_by"] = owner or arguments["submitted_by"]
        elif operation.owner is Owner.CALLER:
            arguments["submitted_by"] = caller.name
        sent_names: dict[str, str] = {}
        for name in OWN_NAMES:
            if sent := arguments.get(name):
                arguments[name] = self._own(sent)
                sent_names[arguments[name]] = sent
        arguments.update({name: caller.name for name in CALLER_ARGUMENTS if name in arguments})
        with errors_name(sent_names):
            result = operation.perform(self._session, bound)
        if operation.owner is Owner.CALLER:
            self._check_own(result)
        shown: R = as_sent(result, caller.name)
        return shown

    def _check_own(self, run: Any) -> None:
        """Raise RunExists if a submitted run has another owner."""
        if run.details.get("submitted_by") != self.caller.name:
            # The submission matched an existing run of another owner, by its id and a guessable
            # nonce. Returning it would show that run to the caller.
            raise run_exists(run.id)

    def _own(self, name: str) -> str:
        """Return the stored name of a caller's key or topic."""
        return own_name(self.caller.name, name)

    def _owned(self, run_id: str, scope: Scope) -> None:
        """Raise an error unless the caller has the scope for a run.

        This also works for a damaged run, because only the field with its owner is read.

        Raises:
            RunNotFound: The caller may not read the run, or it does not exist. A caller whose scope
                holds for all owners gets no error here if the run does not exist.
            Forbidden: The caller lacks the scope, or has it only for their own runs and may read
                this run of another owner.
        """
        self.caller.require(scope)
        owner = self.caller.limited_to(scope)
        if owner is None or owner == self._session.submitter(run_id):
            return
        if self.caller.limited_to(Scope.READ) is not None or not is_there(
            self._session.store, run_id
        ):
            raise not_found(run_id)
        wider = WIDER.get(scope)
        raise Forbidden(
            f"run {run_id} belongs to another owner. The scope {scope.value!r} of {owner} is for "
            f"their own runs. For the runs of all owners, a token needs the scope "
            f"{'' if wider is None else f'{wider.value!r} or '}{Scope.ADMIN.value!r}"
        )

    def require_read_all(self) -> None:
        """Raise Forbidden unless the caller may read the runs of all owners."""
        if self.caller.sees_only is not None:
            self.caller.require(Scope.READ_ALL)
