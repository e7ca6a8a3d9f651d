"""Node pools on their way from a Device Plugin to DRA: stages, flavors, evidence, and what differs."""
