"""Whether a cluster lets anybody taint devices by rule, and if not, what its operator would switch on."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from inventory.models import Cluster
from portal.dra.features import DEVICE_TAINT_RULES, Features, UnknownFeature
from portal.kube.resources import DEVICE_TAINT_RULES as RESOURCE

# The effect None, and the status that tells what a rule would do, came with this version.
NONE_SINCE = (1, 35)
OLDEST = (1, 33)
ALPHA = "v1alpha3"


@dataclass(frozen=True)
class Serving:
    """`api_version` is "" where the cluster serves no rules; `why_not` says what is missing then."""

    api_version: str
    why_not: str = ""
    # Whether a rule may have the effect None.
    knows_none: bool = True

    def __bool__(self) -> bool:
        return bool(self.api_version)


def serving(cluster: Cluster) -> Serving:
    """As of the last contact with the cluster."""
    found = str(cluster.served.get(RESOURCE.plural, ""))
    version = _version(cluster)
    if found:
        knows_none = not found.endswith(ALPHA) or version is None or version >= NONE_SINCE
        return Serving(found, knows_none=knows_none)
    told = {"version": cluster.server_version or _("of an unknown version"), "gate": DEVICE_TAINT_RULES}
    if not cluster.served:
        return Serving("", _("The desk has not heard yet what this cluster serves."))
    if version is not None and version < OLDEST:
        return Serving("", _("Kubernetes knows DeviceTaintRules from 1.33 on; this is %(version)s.") % told)
    told["api"] = f"{RESOURCE.group}/{_offered(version)}"
    return Serving(
        "",
        _(
            "This cluster (%(version)s) does not serve DeviceTaintRules. Its operator switches them on with "
            "the feature gate %(gate)s and the API %(api)s (--runtime-config) of the API server."
        )
        % told,
    )


def _offered(version: tuple[int, int] | None) -> str:
    """The version of the API in which that Kubernetes has it."""
    if version is None or version >= (1, 37):
        return "v1"
    return "v1beta2" if version >= (1, 36) else ALPHA


def _version(cluster: Cluster) -> tuple[int, int] | None:
    try:
        return Features.for_version(cluster.server_version).version
    except UnknownFeature:
        return None
