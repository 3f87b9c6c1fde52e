"""The syntax tree of KSQL: statements as written, before names are resolved.

Names are already folded: upper case unless they were quoted. Every node has its span in the text.
"""

from headrace.lang.ksql.ast.alerts import *
from headrace.lang.ksql.ast.expressions import *
from headrace.lang.ksql.ast.node import *
from headrace.lang.ksql.ast.queries import *
from headrace.lang.ksql.ast.statements import *
from headrace.lang.ksql.ast.types import *
