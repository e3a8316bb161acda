# ruff: noqa: A005 -- to everybody it is `tests.trace`
