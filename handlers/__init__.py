"""One module per route: parse, call core, answer."""
