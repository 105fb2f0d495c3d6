"""Functions that make credentials from arguments."""

from __future__ import annotations

import pytest

from frazil.errors import ErrorKind, InvalidInputError
from frazil.storage.credential_functions import (
    azure_credentials,
    azure_static_credentials,
    containers_credentials,
    gcs_credentials,
    gcs_static_credentials,
    s3_credentials,
    s3_static_credentials,
)
from frazil.storage.credentials import (
    AzureCredentials,
    AzureStaticCredentials,
    Credentials,
    GcsCredentials,
    GcsStaticCredentials,
    LocalFileSystemAccess,
    S3Credentials,
)
from tests.unit.storage.test_credentials import give_key


def test_arguments_choose_the_kind() -> None:
    assert s3_credentials() == s3_credentials(from_env=True) == S3Credentials.FromEnv()
    assert s3_credentials(anonymous=True) == S3Credentials.Anonymous()
    assert s3_credentials(access_key_id="a", secret_access_key="b") == s3_static_credentials(
        access_key_id="a", secret_access_key="b"
    )
    assert isinstance(s3_credentials(get_credentials=give_key), S3Credentials.Refreshable)
    assert gcs_credentials() == GcsCredentials.FromEnv()
    assert gcs_credentials(anonymous=True) == GcsCredentials.Anonymous()
    assert gcs_credentials(bearer_token="t") == GcsCredentials.Static(
        GcsStaticCredentials.BearerToken("t")
    )
    assert azure_credentials() == AzureCredentials.FromEnv()
    assert azure_credentials(anonymous=True) == AzureCredentials.Anonymous()
    assert azure_credentials(sas_token="t") == AzureCredentials.Static(
        AzureStaticCredentials.SasToken("t")
    )


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (s3_credentials, {"anonymous": True, "from_env": True}),
        (s3_credentials, {"access_key_id": "a"}),
        (s3_credentials, {"access_key_id": "a", "secret_access_key": "b", "anonymous": True}),
        (s3_credentials, {"from_env": False}),
        (gcs_credentials, {"bearer_token": "t", "from_env": True}),
        (gcs_credentials, {"from_env": False}),
        (gcs_static_credentials, {}),
        (azure_credentials, {"access_key": "k", "from_env": True}),
        (azure_credentials, {"from_env": False}),
        (azure_static_credentials, {"access_key": "k", "sas_token": "t"}),
        (azure_static_credentials, {}),
    ],
)
def test_arguments_that_do_not_go_together(function: object, arguments: dict[str, object]) -> None:
    assert callable(function)
    with pytest.raises(InvalidInputError, match="conflicting arguments") as caught:
        function(**arguments)
    assert caught.value.kind is ErrorKind.INVALID_CREDENTIALS


def test_containers_take_plain_credentials() -> None:
    made = containers_credentials(
        {
            "s3://b/": S3Credentials.Anonymous(),
            "gs://b/": GcsCredentials.FromEnv(),
            "az://c/": AzureCredentials.FromEnv(),
            "file:///x/": LocalFileSystemAccess,
            "s3://already/": Credentials.S3(S3Credentials.FromEnv()),
            "http://h/": None,
        }
    )
    assert made["s3://b/"] == Credentials.S3(S3Credentials.Anonymous())
    assert made["gs://b/"] == Credentials.Gcs(GcsCredentials.FromEnv())
    assert made["az://c/"] == Credentials.Azure(AzureCredentials.FromEnv())
    assert made["file:///x/"] == LocalFileSystemAccess
    assert made["s3://already/"] == Credentials.S3(S3Credentials.FromEnv())
    assert made["http://h/"] is None
    with pytest.raises(InvalidInputError, match="not a credential"):
        containers_credentials({"s3://b/": "password"})  # type: ignore[dict-item]
