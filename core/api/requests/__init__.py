"""The parameters of every route, parsed from a `Request`.

Every model is a frozen dataclass with a classmethod `parse(request)` that raises a `SharingError` for bad input.
`Request` gives typed access to query parameters, and `Body` to the fields of a JSON body. The caller decides when to
parse, because errors are reported in the same order as by the reference server.
"""
