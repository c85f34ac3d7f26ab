"""Lambda entry points. Each module parses the request, calls core and returns the response."""
