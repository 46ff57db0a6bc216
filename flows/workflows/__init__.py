"""Workflows: functions in plain Python whose steps are rounds of a run."""

from __future__ import annotations

from perdure.flows.workflows.journal import Diverged, StepFailed
from perdure.flows.workflows.steps import Ask, AsyncSteps, Step, Steps, current_steps
from perdure.flows.workflows.workflow_flow import WorkflowFlow, workflow

__all__ = [
    "Ask",
    "AsyncSteps",
    "Diverged",
    "Step",
    "StepFailed",
    "Steps",
    "WorkflowFlow",
    "current_steps",
    "workflow",
]
