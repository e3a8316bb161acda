"""How much the tests do: small forms always, full forms before a release."""

import os

FULL = os.environ.get("TALLYMAN_SCALE") == "full"
