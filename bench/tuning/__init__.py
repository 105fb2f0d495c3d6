"""Measures the constants of the `tuning.py` tables below and above their values."""
