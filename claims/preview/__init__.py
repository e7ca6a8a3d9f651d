"""What an ask would get, before anything is sent."""
