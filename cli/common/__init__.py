"""Helpers that the commands share: the AWS account, options, output, errors and signals."""
