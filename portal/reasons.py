"""What the engine answers, in the reader's language: it gives codes with parameters, never sentences."""

from typing import Any

from django.utils import translation

from portal.dra.outcomes import Reason
from portal.dra.phrases import PHRASES


def in_words(reason: Reason) -> str:
    """The sentence for a reason. One without a sentence is shown by its code, not dropped."""
    if reason.code not in PHRASES:
        return str(reason)
    # No marked text: `portal.translations` takes the sentences from PHRASES itself.
    say = translation.gettext
    sentence = say(PHRASES[reason.code])
    values = {name: in_words(v) if isinstance(v, Reason) else v for name, v in reason.params.items()}
    # A sentence may begin with a place that is not known: nothing is left to separate then.
    return sentence.format_map(_Blank(values)).removeprefix(": ").removeprefix("：")


class _Blank(dict[str, Any]):
    """What is not known stays empty."""

    def __missing__(self, key: str) -> str:
        return ""
