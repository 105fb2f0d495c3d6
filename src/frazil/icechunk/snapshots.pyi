from frazil.model.graph import AncestryGraph as AncestryGraph
from frazil.model.values import Diff as Diff
from frazil.model.values import ManifestFileInfo as ManifestFileInfo
from frazil.model.values import SnapshotInfo as SnapshotInfo
