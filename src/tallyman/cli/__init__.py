"""The terminal: parse, call, print. Each room is a panel of `tallyman --help`; each file is a
command."""
