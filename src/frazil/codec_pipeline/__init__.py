"""zarr-python's codec pipeline for Frazil stores: many chunks in one step.

Making a Frazil store puts it into zarr's configuration: zarr has one class of pipelines for all
stores, and asks no store for its own. Other stores keep what they had. `disable_fast_zarr` leaves
chunks to zarr, and to our codecs only what bounds the memory they take.
"""

from frazil.codec_pipeline.dispatch import FrazilCodecPipeline as FrazilCodecPipeline
from frazil.codec_pipeline.dispatch import disable_fast_zarr as disable_fast_zarr
from frazil.codec_pipeline.dispatch import enable_fast_zarr as enable_fast_zarr
from frazil.codec_pipeline.dispatch import install as install
