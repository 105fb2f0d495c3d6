from frazil.logs import initialize_logs as initialize_logs
from frazil.logs import set_logs_filter as set_logs_filter
from frazil.logs import shutdown_telemetry as shutdown_telemetry
from frazil.model.config import Attribution as Attribution
from frazil.model.config import CachingConfig as CachingConfig
from frazil.model.config import CompressionAlgorithm as CompressionAlgorithm
from frazil.model.config import CompressionConfig as CompressionConfig
from frazil.model.config import FeatureFlag as FeatureFlag
from frazil.model.config import ManifestConfig as ManifestConfig
from frazil.model.config import ManifestPreloadCondition as ManifestPreloadCondition
from frazil.model.config import ManifestPreloadConfig as ManifestPreloadConfig
from frazil.model.config import ManifestSplitCondition as ManifestSplitCondition
from frazil.model.config import ManifestSplitDimCondition as ManifestSplitDimCondition
from frazil.model.config import ManifestSplittingConfig as ManifestSplittingConfig
from frazil.model.config import (
    ManifestVirtualChunkLocationCompressionConfig as ManifestVirtualChunkLocationCompressionConfig,
)
from frazil.model.config import ObjectStoreConfig as ObjectStoreConfig
from frazil.model.config import RepositoryConfig as RepositoryConfig
from frazil.model.config import RepoUpdateRetryConfig as RepoUpdateRetryConfig
from frazil.model.manifest_config import ManifestSplitValues as ManifestSplitValues
from frazil.model.manifest_config import SplitSizesDict as SplitSizesDict
