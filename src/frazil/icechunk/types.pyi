from frazil.model.values import CommitMethod as CommitMethod
from frazil.model.values import SpecVersion as SpecVersion
