"""Reading and writing regions of arrays, many chunks at once, without zarr in between."""

from frazil.bulk.array import BulkArray as BulkArray
from frazil.bulk.chain import Chain as Chain
from frazil.bulk.compiling import compile_chain as compile_chain
from frazil.bulk.pack import Packing as Packing
from frazil.bulk.read import read_chunks as read_chunks
from frazil.bulk.read import read_region as read_region
from frazil.bulk.read import read_regions as read_regions
from frazil.bulk.write import write_region as write_region
