"""The public names of Perdure. `make reference` writes this file from perdure/__init__.py."""

from perdure.flows.commands.approval import Approval as Approval
from perdure.flows.commands.command import CommandSpec as CommandSpec, command as command
from perdure.flows.commands.controller import Controller as Controller, controller as controller
from perdure.flows.commands.flow_command import flow_command as flow_command
from perdure.flows.commands.in_doubt import NOT_DONE as NOT_DONE
from perdure.flows.commands.scripted import ScriptedController as ScriptedController
from perdure.flows.core.cancellation import Signals as Signals
from perdure.flows.core.errors import (
    BadReply as BadReply,
    CodeDoesNotFit as CodeDoesNotFit,
    FatalError as FatalError,
    Forgotten as Forgotten,
    InvalidAnswer as InvalidAnswer,
    InvalidFlow as InvalidFlow,
    InvalidInput as InvalidInput,
    OutcomeUnknown as OutcomeUnknown,
    PerdureError as PerdureError,
    RetryableError as RetryableError,
    RoundStopped as RoundStopped,
    TopicTaken as TopicTaken,
    UnstorableValue as UnstorableValue,
)
from perdure.flows.core.files import File as File, FileReference as FileReference
from perdure.flows.core.history import History as History
from perdure.flows.core.names import Role as Role, node as node
from perdure.flows.core.outcomes import (
    Advance as Advance,
    Command as Command,
    End as End,
    Finish as Finish,
    Interrupt as Interrupt,
    Outcome as Outcome,
    Renew as Renew,
    Turn as Turn,
)
from perdure.flows.core.retry import Retry as Retry
from perdure.flows.core.thread_messages import ThreadMessage as ThreadMessage
from perdure.flows.executors.container import (
    Container as Container,
    ContainerFailed as ContainerFailed,
)
from perdure.flows.executors.sandbox import (
    Sandbox as Sandbox,
    SandboxCommand as SandboxCommand,
    ThisMachine as ThisMachine,
)
from perdure.flows.executors.shell import shell_command as shell_command
from perdure.flows.executors.subprocesses import ProcessEnding as ProcessEnding
from perdure.flows.loading.sources import add_directory as add_directory
from perdure.flows.rings.branching_flow import BranchingFlow as BranchingFlow
from perdure.flows.rings.circular import (
    CircularFlow as CircularFlow,
    Node as Node,
    interface as interface,
)
from perdure.flows.rings.controller_executor import (
    ControllerExecutorFlow as ControllerExecutorFlow,
)
from perdure.flows.rings.human import human_feedback as human_feedback
from perdure.flows.rings.memory import memory_read as memory_read, memory_write as memory_write
from perdure.flows.rounds.children import (
    Child as Child,
    ChildFailed as ChildFailed,
    Ended as Ended,
    Group as Group,
    InvalidChild as InvalidChild,
    WaitOver as WaitOver,
)
from perdure.flows.rounds.context import RoundContext as RoundContext
from perdure.flows.rounds.flow import Flow as Flow
from perdure.flows.rounds.lifespans import (
    Lifespan as Lifespan,
    LifespanFailed as LifespanFailed,
    lifespan as lifespan,
)
from perdure.flows.rounds.notes import Note as Note, NoteStore as NoteStore, Notes as Notes
from perdure.flows.rounds.registry import (
    FlowNotFound as FlowNotFound,
    load_failures as load_failures,
    load_modules as load_modules,
    make as make,
    register as register,
    registered as registered,
)
from perdure.flows.rounds.waits import (
    Mailbox as Mailbox,
    Parked as Parked,
    ReceivedSignal as ReceivedSignal,
)
from perdure.flows.workflows import (
    Ask as Ask,
    AsyncSteps as AsyncSteps,
    Diverged as Diverged,
    Step as Step,
    StepFailed as StepFailed,
    Steps as Steps,
    workflow as workflow,
)
from perdure.worker.app import install as install
from perdure.worker.client.async_client import AsyncClient as AsyncClient
from perdure.worker.client.client import Client as Client
from perdure.worker.client.remote import RemoteClient as RemoteClient
from perdure.worker.doctor import Finding as Finding
from perdure.worker.domain.error_groups import ErrorGroup as ErrorGroup, ErrorGroups as ErrorGroups
from perdure.worker.domain.event import Event as Event
from perdure.worker.domain.execution_state import (
    END as END,
    ExecutionState as ExecutionState,
    ExecutionStatus as ExecutionStatus,
    START as START,
    StopRequestStatus as StopRequestStatus,
)
from perdure.worker.domain.interrupt import (
    Inbox as Inbox,
    PendingInterrupt as PendingInterrupt,
    Waiting as Waiting,
)
from perdure.worker.domain.run import Page as Page, Run as Run, RunStatus as RunStatus
from perdure.worker.domain.run_tree import AlikeRuns as AlikeRuns, RunTree as RunTree
from perdure.worker.domain.sent_message import SentMessage as SentMessage
from perdure.worker.domain.signal import SignalReceipt as SignalReceipt, SignalReply as SignalReply
from perdure.worker.domain.stop import StopReceipt as StopReceipt
from perdure.worker.domain.stream import StreamItem as StreamItem
from perdure.worker.domain.verdict import Verdict as Verdict, VerdictCode as VerdictCode
from perdure.worker.errors import (
    AccessDenied as AccessDenied,
    ArtifactNotFound as ArtifactNotFound,
    Conflict as Conflict,
    DamagedNote as DamagedNote,
    DamagedRun as DamagedRun,
    Forbidden as Forbidden,
    InvalidSettings as InvalidSettings,
    InvalidTransition as InvalidTransition,
    MailboxFull as MailboxFull,
    NotForkable as NotForkable,
    NotReplicated as NotReplicated,
    RunExists as RunExists,
    RunFailed as RunFailed,
    RunNotFound as RunNotFound,
    Stale as Stale,
    StoreUnavailable as StoreUnavailable,
    Taken as Taken,
    UnknownCaller as UnknownCaller,
    UnknownFlow as UnknownFlow,
    ValueNotFound as ValueNotFound,
)
from perdure.worker.features.notes.namespace import NoteNamespace as NoteNamespace
from perdure.worker.settings import Settings as Settings

__all__: list[str]
