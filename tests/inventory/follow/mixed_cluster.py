"""``python -m tests.inventory.follow.mixed_cluster``: the embedded cluster as a server in the middle of an
upgrade, which serves each resource of `resource.k8s.io` in another version."""

import sys

from portal.demo import __main__ as demo
from portal.demo import catalog
from portal.demo.resources import Resource

VERSIONS = {
    "resourceslices": ("v1beta1",),
    "deviceclasses": ("v1beta2", "v1beta1"),
    "resourceclaims": ("v1", "v1beta1"),
    "resourceclaimtemplates": ("v1beta2",),
}


def mix() -> None:
    """Let every catalogue serve DRA in these versions, whatever the release would serve."""
    usual = catalog._in_versions
    drafts = {resource.plural for resource in catalog._DRA}

    def mixed(resource: Resource, versions: tuple[str, ...]) -> list[Resource]:
        served = VERSIONS[resource.plural] if resource.plural in drafts else versions
        return usual(resource, served)

    catalog._in_versions = mixed


if __name__ == "__main__":
    mix()
    sys.exit(demo.main())
