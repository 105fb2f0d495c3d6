"""zarr-python's codec pipeline for Frazil stores: many chunks in one step.

`enable_fast_zarr` and `disable_fast_zarr` put it into zarr's configuration and take it out;
sessions do the first when they hand out a store, unless `frazil.config` says otherwise.
"""

from frazil.codec_pipeline.dispatch import FrazilCodecPipeline as FrazilCodecPipeline
from frazil.codec_pipeline.dispatch import disable_fast_zarr as disable_fast_zarr
from frazil.codec_pipeline.dispatch import enable_fast_zarr as enable_fast_zarr
from frazil.codec_pipeline.dispatch import install as install
