"""`sluice serve`: serves the routes of the template over HTTP, with the events that API Gateway would send."""
