"""English sentences for the codes that this package answers with; the portal translates by the same codes."""

from typing import Any

PHRASES: dict[str, str] = {}


def english(code: str, params: dict[str, Any]) -> str:
    """The sentence for a code; a code without a sentence is shown with its parameters."""
    template = PHRASES.get(code)
    if template is None:
        return f"{code} {params}" if params else code
    return template.format(**params)
