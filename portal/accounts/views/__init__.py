"""Pages about the signed-in person, their tokens, and the audit trail."""
