"""Lambda front end: converts API Gateway events to requests and responses to proxy answers."""
