"""The terminal: parse, call, print. A room is a panel of `tallyman --help`, a file a command."""
