"""Requests, one model per route.

Every model is a frozen dataclass with a classmethod `parse(request)` that raises a `SharingError` for bad input.
Handlers decide when to parse, because the order in which errors are reported matches the reference server.
"""
