"""Whether a repository keeps every rule of the format, and how to bring back one that does not."""

from __future__ import annotations

from frazil.fsck.checking import fsck
from frazil.fsck.findings import RULES, Code, Finding, Level, Report
from frazil.fsck.plans import RepairPlan, Step
from frazil.fsck.repairing import repair

__all__ = ["RULES", "Code", "Finding", "Level", "RepairPlan", "Report", "Step", "fsck", "repair"]
