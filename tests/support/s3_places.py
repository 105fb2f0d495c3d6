"""Places on the S3 server of the tests."""

from __future__ import annotations

from frazil.model.config import S3Options
from frazil.storage.credential_functions import s3_static_credentials
from frazil.storage.s3_place import S3Place
from tests.support.servers import REGION, S3Server


def place_on(server: S3Server, prefix: str, endpoint: str | None = None) -> S3Place:
    """A place on the test server."""
    return S3Place(
        server.bucket,
        prefix,
        S3Options(region=REGION, endpoint_url=endpoint or server.endpoint, allow_http=True),
        s3_static_credentials(
            access_key_id=server.access_key_id, secret_access_key=server.secret_access_key
        ),
    )
