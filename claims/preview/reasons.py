"""Why something does not fit, in sentences."""

from django.utils.translation import gettext as _

from portal.dra.explain import Explanation
from portal.dra.outcomes import Reason
from portal.reasons import in_words


def reasons_of(explanation: Explanation) -> list[str]:
    """An explanation in sentences: the nearest miss first, then what each step of the funnel left over."""
    said = [_nearest(explanation.nearest)] if explanation.nearest is not None else []
    for funnel in explanation.funnels:
        said += [
            _("%(devices)s devices on %(nodes)s nodes: %(reason)s")
            % {"reason": in_words(stage.reason), "devices": stage.devices, "nodes": stage.nodes}
            for stage in funnel.stages
        ]
    return list(dict.fromkeys(said))


def _nearest(reason: Reason) -> str:
    if reason.code == "miss-held":
        # Whose claims hold them is not for everybody's eyes.
        told = {"request": reason.params.get("request", ""), "devices": reason.params.get("before", 0)}
        return _("%(request)s: all %(devices)s matching devices are held.") % told
    return in_words(reason)
