from frazil.model.values import GCSummary as GCSummary
from frazil.model.values import Update as Update
from frazil.model.values import UpdateType as UpdateType
