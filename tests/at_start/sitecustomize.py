"""Plant what tests need in the installed command: Python imports this file when it starts."""

from tests.planting import install

install()
