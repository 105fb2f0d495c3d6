"""Procedures and upkeep: garbage collection, compaction, verification, audits."""
