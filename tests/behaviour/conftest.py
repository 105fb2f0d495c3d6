"""Servers that hold the storages under test."""

from tests.support.fixtures import azure_server, s3_server, web_server

__all__ = ["azure_server", "s3_server", "web_server"]
