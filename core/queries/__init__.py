"""Asynchronous queries: their state in DynamoDB, and the worker that makes it possible to answer them.

Routes use the state. Only the worker's function imports `worker`, which builds indexes.
"""
