"""REST over the tokens of collectors of Pods' devices, for administrators."""

from drf_spectacular.utils import extend_schema, extend_schema_view

from inventory.cdi.api_tokens import PARAMETERS, NodeTokenListView, NodeTokenView
from inventory.podresources import tokens


@extend_schema(tags=["pod-devices"])
@extend_schema_view(get=extend_schema(parameters=PARAMETERS))
class PodDeviceTokenListView(NodeTokenListView):
    """Tokens of nodes' collectors, the latest first."""

    tokens = tokens.TOKENS


@extend_schema(tags=["pod-devices"])
class PodDeviceTokenView(NodeTokenView):
    tokens = tokens.TOKENS
