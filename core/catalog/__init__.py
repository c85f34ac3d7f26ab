"""Shares, recipients and grants in DynamoDB. Functions read them; only `admin`, for the command line, changes them."""
