"""What the desk starts for people on their requests."""
