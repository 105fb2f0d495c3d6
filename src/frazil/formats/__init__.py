"""Bytes to model and back: pure functions with bounds.

Whatever reads bytes raises a `FormatError` that names the file's key when they are damaged, of
another kind, or more than a file of their size can justify.
"""
