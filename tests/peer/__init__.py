"""Tests against the official icechunk packages, each in its own virtual environment."""
