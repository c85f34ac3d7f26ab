"""`sluice serve`: the template's routes over HTTP, each request as the event that API Gateway would send."""
