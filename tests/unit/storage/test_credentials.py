"""Credentials hide their secrets, travel, and say clearly when arguments do not fit."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from frazil.storage.credential_functions import (
    azure_refreshable_credentials,
    containers_credentials,
    s3_refreshable_credentials,
)
from frazil.storage.credentials import (
    AzureCredentials,
    AzureRefreshableCredential,
    AzureStaticCredentials,
    Credentials,
    GcsBearerCredential,
    GcsCredentials,
    GcsStaticCredentials,
    HttpAccess,
    LocalFileSystemAccess,
    Renewal,
    S3Credentials,
    S3StaticCredentials,
)

SECRET = "wJalrXUtnFEMI/K7MDENG"
KEY = S3StaticCredentials("AKIAEXAMPLE", SECRET, f"token-{SECRET}")
NOW = datetime.now(UTC)

ALL = [
    KEY,
    S3Credentials.FromEnv(),
    S3Credentials.Anonymous(),
    S3Credentials.Static(KEY),
    S3Credentials.Refreshable(SECRET.encode(), KEY),
    GcsBearerCredential(SECRET, expires_after=NOW),
    GcsStaticCredentials.ServiceAccount("/keys/account.json"),
    GcsStaticCredentials.ServiceAccountKey(SECRET),
    GcsStaticCredentials.ApplicationCredentials("/keys/adc.json"),
    GcsStaticCredentials.BearerToken(SECRET),
    GcsCredentials.Static(GcsStaticCredentials.BearerToken(SECRET)),
    GcsCredentials.Refreshable(SECRET.encode(), GcsBearerCredential(SECRET)),
    AzureStaticCredentials.AccessKey(SECRET),
    AzureStaticCredentials.SasToken(SECRET),
    AzureCredentials.Static(AzureStaticCredentials.BearerToken(SECRET)),
    AzureRefreshableCredential.AccessKey(SECRET, expires_after=NOW),
    AzureCredentials.Refreshable(b"", AzureRefreshableCredential.SasToken(SECRET)),
    Credentials.S3(S3Credentials.Static(KEY)),
    Credentials.Azure(AzureCredentials.Static(AzureStaticCredentials.AccessKey(SECRET))),
    LocalFileSystemAccess,
    HttpAccess,
]


@pytest.mark.parametrize("credential", ALL, ids=lambda c: type(c).__qualname__)
class TestEveryCredential:
    def test_secrets_are_never_shown(self, credential: object) -> None:
        assert SECRET not in repr(credential) + str(credential) + f"{[credential]}"

    def test_it_travels_and_stays_equal(self, credential: object) -> None:
        assert pickle.loads(pickle.dumps(credential)) == credential


def test_the_beginning_of_a_key_id_is_shown() -> None:
    assert "access_key_id: AKIA****" in repr(KEY)
    assert "secret_access_key: ****" in repr(KEY)


def test_members_belong_to_their_family() -> None:
    assert isinstance(S3Credentials.Anonymous(), S3Credentials)
    assert not isinstance(GcsCredentials.Anonymous(), S3Credentials)
    assert containers_credentials({"a": S3Credentials.Anonymous()}) != containers_credentials(
        {"a": GcsCredentials.Anonymous()}
    )


def give_key() -> S3StaticCredentials:
    return KEY


class Counted:
    """Gives keys that expire at once, some times; then one that does not."""

    calls = 0

    def __call__(self) -> S3StaticCredentials:
        Counted.calls += 1
        end = NOW - timedelta(seconds=1) if Counted.calls < 3 else None
        return S3StaticCredentials("a", str(Counted.calls), expires_after=end)


def test_a_function_is_called_again_when_its_key_has_expired() -> None:
    Counted.calls = 0
    renewal = Renewal(s3_refreshable_credentials(Counted()), S3StaticCredentials)
    assert [renewal.get().secret_access_key for _ in range(5)] == ["1", "2", "3", "3", "3"]


def test_scattered_credentials_need_no_call() -> None:
    made = pickle.loads(pickle.dumps(s3_refreshable_credentials(give_key, True)))
    assert made.current == KEY
    silent = S3Credentials.Refreshable(b"never unpickled", made.current)
    assert Renewal(silent, S3StaticCredentials).get() == KEY


def test_a_function_that_gives_something_else_is_told_so() -> None:
    renewal = Renewal(azure_refreshable_credentials(give_key), GcsBearerCredential)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must return GcsBearerCredential, not S3Static"):
        renewal.get()
