"""Charges as FOCUS (FinOps Open Cost and Usage Specification) has them: columns, rows, files, and the rules
that files are checked by. What is where: `docs/focus.md`."""
