"""Checks a repository against every rule of the format, and repairs one that breaks them."""

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
