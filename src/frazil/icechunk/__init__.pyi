from frazil.icechunk._exceptions import *
from frazil.icechunk.config import *
from frazil.icechunk.conflicts import *
from frazil.icechunk.credentials import *
from frazil.icechunk.functions import __version__ as __version__
from frazil.icechunk.functions import print_debug_info as print_debug_info
from frazil.icechunk.functions import spec_version as spec_version
from frazil.icechunk.functions import supported_spec_versions as supported_spec_versions
from frazil.icechunk.functions import upgrade_icechunk_repository as upgrade_icechunk_repository
from frazil.icechunk.functions import user_agent as user_agent
from frazil.icechunk.ops import *
from frazil.icechunk.repository import *
from frazil.icechunk.session import *
from frazil.icechunk.snapshots import *
from frazil.icechunk.storage import *
from frazil.icechunk.store import *
from frazil.icechunk.types import *
from frazil.icechunk.virtual import *
