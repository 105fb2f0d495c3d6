"""Bytes to model and back: pure functions with bounds."""
