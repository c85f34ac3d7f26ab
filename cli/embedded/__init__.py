"""The embedded AWS: MiniStack, pinned, in an environment of its own, bound to 127.0.0.1 and ended with its owner."""
