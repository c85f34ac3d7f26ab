"""How a Lambda event becomes a request, and an answer what API Gateway expects."""
