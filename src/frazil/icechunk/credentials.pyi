from frazil.storage.credential_functions import (
    azure_anonymous_credentials as azure_anonymous_credentials,
)
from frazil.storage.credential_functions import azure_credentials as azure_credentials
from frazil.storage.credential_functions import (
    azure_from_env_credentials as azure_from_env_credentials,
)
from frazil.storage.credential_functions import (
    azure_refreshable_credentials as azure_refreshable_credentials,
)
from frazil.storage.credential_functions import azure_static_credentials as azure_static_credentials
from frazil.storage.credential_functions import containers_credentials as containers_credentials
from frazil.storage.credential_functions import (
    gcs_anonymous_credentials as gcs_anonymous_credentials,
)
from frazil.storage.credential_functions import gcs_credentials as gcs_credentials
from frazil.storage.credential_functions import gcs_from_env_credentials as gcs_from_env_credentials
from frazil.storage.credential_functions import (
    gcs_refreshable_credentials as gcs_refreshable_credentials,
)
from frazil.storage.credential_functions import gcs_static_credentials as gcs_static_credentials
from frazil.storage.credential_functions import s3_anonymous_credentials as s3_anonymous_credentials
from frazil.storage.credential_functions import s3_credentials as s3_credentials
from frazil.storage.credential_functions import s3_from_env_credentials as s3_from_env_credentials
from frazil.storage.credential_functions import (
    s3_refreshable_credentials as s3_refreshable_credentials,
)
from frazil.storage.credential_functions import s3_static_credentials as s3_static_credentials
from frazil.storage.credentials import AnyAzureCredential as AnyAzureCredential
from frazil.storage.credentials import AnyAzureStaticCredential as AnyAzureStaticCredential
from frazil.storage.credentials import AnyCredential as AnyCredential
from frazil.storage.credentials import AnyGcsCredential as AnyGcsCredential
from frazil.storage.credentials import AnyGcsStaticCredential as AnyGcsStaticCredential
from frazil.storage.credentials import AnyS3Credential as AnyS3Credential
from frazil.storage.credentials import AzureCredentials as AzureCredentials
from frazil.storage.credentials import AzureRefreshableCredential as AzureRefreshableCredential
from frazil.storage.credentials import AzureStaticCredentials as AzureStaticCredentials
from frazil.storage.credentials import Credentials as Credentials
from frazil.storage.credentials import GcsBearerCredential as GcsBearerCredential
from frazil.storage.credentials import GcsCredentials as GcsCredentials
from frazil.storage.credentials import GcsStaticCredentials as GcsStaticCredentials
from frazil.storage.credentials import HttpAccess as HttpAccess
from frazil.storage.credentials import LocalFileSystemAccess as LocalFileSystemAccess
from frazil.storage.credentials import S3Credentials as S3Credentials
from frazil.storage.credentials import S3StaticCredentials as S3StaticCredentials
