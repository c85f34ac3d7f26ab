"""`sluice serve`: serves the routes of the template over HTTP, with the events of API Gateway."""
