"""All errors that a user can cause or must act on, each with a stable code.

An error carries a *code* (kebab-case, never reused), *what* happened (kind and quoted name), *where*
(file:line:col, query and option, or partition and offset) and a *fix* (one sentence to act on).
Operational failures also say what a supervisor should do: `Retry` or `Stop`.

    HeadraceError
    |-- UserError                 the request is invalid
    |   `-- StatementError        ... in a statement, with its position in the text
    |-- Retry                     transient: try again with back-off
    `-- Stop                      permanent: a person must act

Each module has the errors of one area; import them from this package.
"""

from headrace.errors.access import *
from headrace.errors.alerts import *
from headrace.errors.base import CODES, HeadraceError, Retry, StatementError, Stop, UserError, error_from_dict
from headrace.errors.client import *
from headrace.errors.configuration import *
from headrace.errors.formats import *
from headrace.errors.kafka import *
from headrace.errors.log import *
from headrace.errors.queries import *
from headrace.errors.server import *
from headrace.errors.statements import *
from headrace.errors.storage import *
from headrace.errors.suggestions import closest, suggestion
from headrace.errors.testing import *
from headrace.errors.views import *
