"""The embedded AWS: a pinned MiniStack in its own environment, on 127.0.0.1, that ends with the command."""
