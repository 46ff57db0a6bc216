"""Subjects of the Python reference: which page describes which public name, in which order."""

from __future__ import annotations

from typing import NamedTuple


class Subject(NamedTuple):
    """A page of the Python reference."""

    title: str
    introduction: str
    names: tuple[str, ...]
    module: str = "perdure"


SUBJECTS = {
    "client": Subject(
        "Client",
        "Clients submit goals, read runs, and stop, resume and retry them.",
        ("Client", "AsyncClient", "RemoteClient", "Page", "Inbox", "install"),
    ),
    "runs": Subject(
        "Runs",
        "What clients return: runs, their state, their events, and what became of a request.",
        (
            "Run", "RunStatus", "RunTree", "AlikeRuns", "Event", "StreamItem", "Verdict", "VerdictCode", "PendingInterrupt", "ErrorGroups", "ErrorGroup", "StopReceipt",
            "SignalReceipt", "SignalReply", "SentMessage", "ThreadMessage", "NoteNamespace", "File", "FileReference", "Finding", "ExecutionState", "ExecutionStatus", "StopRequestStatus", "START", "END",
            "Waiting",
        ),
    ),
    "flows": Subject(
        "Flows",
        "Flows say which nodes a run has and which one runs next. The registry finds them by name.",
        (
            "Flow", "ControllerExecutorFlow", "CircularFlow", "BranchingFlow", "Node", "node",
            "interface", "Role", "Retry", "lifespan", "Lifespan", "register", "registered", "make", "load_modules",
            "add_directory", "load_failures",
        ),
    ),
    "commands": Subject(
        "Commands",
        "Commands are the actions that a flow may take. Some ship with Perdure.",
        (
            "command", "flow_command", "shell_command", "CommandSpec", "Approval", "NOT_DONE", "human_feedback", "memory_read",
            "memory_write", "Container", "Sandbox", "SandboxCommand", "ThisMachine", "ProcessEnding",
        ),
    ),
    "controllers": Subject(
        "Controllers",
        "Controllers decide which command is carried out next.",
        ("Controller", "controller", "ScriptedController"),
    ),
    "outcomes": Subject(
        "Rounds and outcomes",
        "What a node reads during a round, and what it returns.",
        (
            "RoundContext", "History", "Signals", "Outcome", "Command", "Finish", "Interrupt",
            "Advance", "End", "Renew", "Turn", "Notes", "Note", "NoteStore", "Mailbox", "ReceivedSignal", "Parked",
        ),
    ),
    "workflows": Subject(
        "Workflows",
        "Functions in plain Python whose steps are rounds of a run.",
        ("workflow", "Steps", "AsyncSteps", "Step", "Ask"),
    ),
    "children": Subject(
        "Child runs",
        "What a node starts with `RoundContext.child`, `gather` and `map`, and what it gets back.",
        ("Child", "Ended", "Group"),
    ),
    "errors": Subject(
        "Errors",
        "Every error of Perdure is a `PerdureError`. [Errors](../errors.md) has the HTTP status and"
        " the exit code of each.",
        (
            "PerdureError", "RetryableError", "OutcomeUnknown", "FatalError", "UnstorableValue", "InvalidAnswer",
            "RoundStopped", "Forgotten", "BadReply", "InvalidFlow", "InvalidInput", "FlowNotFound",
            "UnknownFlow", "RunNotFound", "RunFailed", "ArtifactNotFound", "ValueNotFound", "RunExists", "Conflict",
            "Taken", "MailboxFull", "ChildFailed", "InvalidChild", "WaitOver", "TopicTaken", "LifespanFailed", "ContainerFailed", "StepFailed", "CodeDoesNotFit", "Diverged", "InvalidTransition", "Stale",
            "DamagedRun", "DamagedNote", "UnknownCaller", "Forbidden",
            "InvalidSettings", "StoreUnavailable", "NotForkable", "NotReplicated", "AccessDenied",
        ),
    ),
    "pydantic-ai": Subject(
        "Agents of Pydantic AI",
        "Agents whose requests and tool calls are steps. [The guide](../../guides/pydantic-ai.md)"
        " shows how they work together.",
        ("PerdureDurability", "run_agent", "register_agent"),
        "perdure.pydantic_ai",
    ),
    "openai-agents": Subject(
        "Agents of the OpenAI Agents SDK",
        "Agents whose requests and tool calls are steps. [The guide](../../guides/openai-agents.md)"
        " shows how they work together.",
        ("run_agent", "register_agent", "PerdureRunner"),
        "perdure.openai_agents",
    ),
    "langgraph": Subject(
        "Graphs of LangGraph",
        "Graphs whose supersteps are rounds. [The guide](../../guides/langgraph.md) shows how they"
        " work.",
        ("register_graph", "graph_of", "fork"),
        "perdure.langgraph",
    ),
    "settings": Subject(
        "Settings",
        "The settings as an object. [Settings](../settings.md) describes each of them.",
        ("Settings",),
    ),
    "testing": Subject(
        "Testing",
        "The crash lab runs your own flows through every crash. A fake model stands in for a provider.",
        (
            "crash_lab", "Lab", "FakeModel", "FakeReply", "FakeRequest", "FakeMessage", "Report", "Story", "Call", "Question", "point", "check_replay",
            "CrashFound", "NotDeterministic", "LabError",
        ),
        "perdure.testing",
    ),
}  # fmt: skip
