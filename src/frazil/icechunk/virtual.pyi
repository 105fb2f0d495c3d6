from frazil.model.config import VirtualChunkContainer as VirtualChunkContainer
from frazil.model.config import VirtualChunkSpec as VirtualChunkSpec
