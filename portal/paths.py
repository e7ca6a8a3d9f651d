"""What may stand for a Kubernetes name in an address: anything printable. A name with control characters is
no name (and PostgreSQL refuses to even look for NUL), so such an address does not exist."""

from django.urls import register_converter
from django.urls.converters import StringConverter


class KubernetesName(StringConverter):
    """One name, without slashes: ``<k8s:name>``."""

    regex = r"[^/\x00-\x1f]+"


class KubernetesPath(StringConverter):
    """A name that may have slashes: ``<k8spath:name>``."""

    regex = r"[^\x00-\x1f]+"


register_converter(KubernetesName, "k8s")
register_converter(KubernetesPath, "k8spath")
