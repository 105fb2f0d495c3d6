"""Which pipeline an array gets: ours in Frazil stores, in all others what it had before.

In Frazil stores ours is the bulk path or, if that is switched off or does not know all parts of
an array, zarr's own with codecs that keep within the memory of a chunk.

zarr asks one class, which it finds by the name in its configuration. That class is ours and
holds on to the class that was configured before, to which everything that is not about a
Frazil store goes: what other stores get was made by that class and knows nothing of us. There
is one such class for each that may be below it, so that the name alone says it all, and
`with zarr.config.set(...)` puts back both at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar, Final

import zarr
from zarr.abc.codec import Codec, CodecPipeline
from zarr.abc.store import Store
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.config import BadConfigError
from zarr.core.metadata import ArrayV2Metadata, ArrayV3Metadata
from zarr.registry import get_pipeline_class, register_pipeline

from frazil import config
from frazil.codec_pipeline.bounded import within_bounds
from frazil.codec_pipeline.bulk_pipeline import BulkStore, bulk_or_plain

PATH_KEY: Final = "codec_pipeline.path"


class FrazilCodecPipeline(CodecPipeline):
    """The class in zarr's configuration; it makes pipelines, and is never instantiated."""

    below: ClassVar[type[CodecPipeline]] = BatchedCodecPipeline
    """the class that was configured before"""

    @classmethod
    def from_codecs(  # type: ignore[override]  # never one of its own kind
        cls,
        codecs: Iterable[Codec],
        **options: Any,  # noqa: ANN401 - its own
    ) -> CodecPipeline:
        """Make the pipeline of the class below, for other stores and inside shards."""
        return cls.below.from_codecs(codecs, **options)

    @classmethod
    def from_array_metadata_and_store(  # type: ignore[override]  # never one of its own kind
        cls, array_metadata: ArrayV2Metadata | ArrayV3Metadata, store: Store
    ) -> CodecPipeline:
        """Make the pipeline of an array.

        Raises:
            NotImplementedError: zarr shall use `from_codecs`.
        """
        if not isinstance(store, BulkStore):
            return cls.below.from_array_metadata_and_store(array_metadata, store)
        plain = within_bounds(cls._plain(array_metadata, store))
        return bulk_or_plain(array_metadata, plain) if config.current().fast_zarr else plain

    @classmethod
    def _plain(
        cls, array_metadata: ArrayV2Metadata | ArrayV3Metadata, store: Store
    ) -> CodecPipeline:
        try:
            return cls.below.from_array_metadata_and_store(array_metadata, store)
        except NotImplementedError:
            # zarr's own way from metadata to a pipeline; it differs between releases. Without a
            # store it comes back to `from_codecs` above.
            return zarr.core.array.create_codec_pipeline(array_metadata)


def install() -> None:
    """Put our class into zarr's configuration, if it is not there yet."""
    if _is_installed():
        return
    try:
        below = get_pipeline_class()
    except BadConfigError:
        return  # zarr will say so when it opens an array
    zarr.config.set({PATH_KEY: _name(_over(below))})  # type: ignore[arg-type]  # classes are hashable


def enable_fast_zarr() -> None:
    """Read and write Frazil stores through zarr-python in bulk; arrays opened from now on do."""
    config.set(fast_zarr=True)
    install()


def disable_fast_zarr() -> None:
    """Let zarr-python read and write Frazil stores its own way, at once and for all arrays.

    What it decodes stays within bounds, so that it goes on asking us for pipelines.
    """
    config.set(fast_zarr=False)


def _is_installed() -> bool:
    """Whether zarr is configured to use our class."""
    if not str(zarr.config.get(PATH_KEY)).startswith(_name(FrazilCodecPipeline)):
        return False
    return issubclass(get_pipeline_class(), FrazilCodecPipeline)


@cache
def _over(below: type[CodecPipeline]) -> type[FrazilCodecPipeline]:
    """Our class on top of another, under a name that contains the name of the other."""
    if below is BatchedCodecPipeline:
        return FrazilCodecPipeline
    name = f"{FrazilCodecPipeline.__qualname__}[{_name(below)}]"
    made = type(name, (FrazilCodecPipeline,), {"below": below, "__module__": PACKAGE})
    register_pipeline(made)
    return made


def _name(pipeline: type[object]) -> str:
    """The name under which zarr keeps a class."""
    return f"{pipeline.__module__}.{pipeline.__qualname__}"


PACKAGE: Final = __name__.rpartition(".")[0]
FrazilCodecPipeline.__module__ = PACKAGE  # the name users may put into zarr's configuration
register_pipeline(FrazilCodecPipeline)  # type: ignore[type-abstract]  # it makes others only
