"""All errors raised on purpose. Facts are attributes; the text is derived from them."""

from tallyman.errors.asset import *
from tallyman.errors.base import *
from tallyman.errors.database import *
from tallyman.errors.definition import *
from tallyman.errors.lineage import *
from tallyman.errors.publication import *
from tallyman.errors.replay import *
from tallyman.errors.run import *
from tallyman.errors.seal import *
from tallyman.errors.table import *
from tallyman.errors.task import *
from tallyman.errors.trace import *
