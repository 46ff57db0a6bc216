"""Workflows, functions in plain Python whose steps are rounds of a run."""

from __future__ import annotations

from perdure.flows.workflow.journal import Diverged, StepFailed
from perdure.flows.workflow.steps import AsyncSteps, Step, Steps
from perdure.flows.workflow.workflow_flow import WorkflowFlow, workflow

__all__ = ["AsyncSteps", "Diverged", "Step", "StepFailed", "Steps", "WorkflowFlow", "workflow"]
