"""`sluice invoke`: runs one function with an event, in the Lambda runtime and without Docker."""
