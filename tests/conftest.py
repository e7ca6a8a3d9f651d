"""Fixtures that every room's tests share."""
