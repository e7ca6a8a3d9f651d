"""What templates of classes ask about their review."""

from django import template

from inventory.proposals import rules

register = template.Library()


@register.simple_tag
def changes_at_once() -> bool:
    """Whether a class may be changed without a proposal: ``{% changes_at_once as at_once %}``."""
    return rules.permits_direct()


@register.simple_tag
def review_words() -> str:
    """How changes of classes are reviewed here."""
    return str(rules.WORDS[rules.in_force()])
