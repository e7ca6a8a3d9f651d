"""Booking devices ahead."""
