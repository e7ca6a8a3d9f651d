"""Bulk import of projects, members and namespaces from CSV: read, shown, done as a whole or not at all."""
