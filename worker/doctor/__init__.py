"""The doctor: what voids the promises, what endangers them, and what to do about each."""

from worker.doctor.examination import examine, refusals
from worker.doctor.finding import Finding, Level

__all__ = ["Finding", "Level", "examine", "refusals"]
