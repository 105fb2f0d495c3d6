from frazil.model.updates import UpdateType as UpdateType
from frazil.model.values import GCSummary as GCSummary
from frazil.model.values import Update as Update
