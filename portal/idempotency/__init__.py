"""Sending a POST again without doing it twice: the header `Idempotency-Key` of the REST API."""
