from frazil.model.values import BasicConflictSolver as BasicConflictSolver
from frazil.model.values import Conflict as Conflict
from frazil.model.values import ConflictDetector as ConflictDetector
from frazil.model.values import ConflictSolver as ConflictSolver
from frazil.model.values import ConflictType as ConflictType
from frazil.model.values import VersionSelection as VersionSelection
