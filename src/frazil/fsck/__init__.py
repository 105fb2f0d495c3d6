"""Whether a repository keeps every rule of the format, and how to bring back one that does not."""

from __future__ import annotations

from frazil.fsck.checking import fsck, verify
from frazil.fsck.findings import REFERENCES, RULES, Code, Finding, Level, Report
from frazil.fsck.plans import RepairPlan, RepairStep
from frazil.fsck.repairing import repair

__all__ = [
    "REFERENCES",
    "RULES",
    "Code",
    "Finding",
    "Level",
    "RepairPlan",
    "RepairStep",
    "Report",
    "fsck",
    "repair",
    "verify",
]
