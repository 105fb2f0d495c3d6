"""Servers that histories are played on."""

from tests.support.fixtures import s3_server

__all__ = ["s3_server"]
