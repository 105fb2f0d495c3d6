"""zarr-python's codec pipeline for Frazil stores: many chunks in one step.

`enable_fast_zarr` and `disable_fast_zarr` put it into zarr's configuration and take it out. Making
a Frazil store does the first, unless `frazil.config` says otherwise: zarr has one class of
pipelines for all stores, and asks no store for its own. Other stores keep what they had.
"""

from frazil.codec_pipeline.dispatch import FrazilCodecPipeline as FrazilCodecPipeline
from frazil.codec_pipeline.dispatch import disable_fast_zarr as disable_fast_zarr
from frazil.codec_pipeline.dispatch import enable_fast_zarr as enable_fast_zarr
from frazil.codec_pipeline.dispatch import install as install
