"""What the tests of proposals are about."""

from datetime import UTC, datetime

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NVIDIA = "device.driver == 'gpu.nvidia.com'"
AMD = "device.driver == 'gpu.amd.com'"
NAME = "big.example"
# What a class was once.
RULES_OF_OLD = {"selectors": [{"cel": {"expression": "device.driver == 'old.example.org'"}}]}
