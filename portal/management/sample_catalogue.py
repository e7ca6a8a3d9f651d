"""The sample catalogue of the demo: a few flavors of the embedded cluster's fleet."""

from datetime import datetime, timedelta
from typing import Any

from claims.models import Flavor, Placement
from inventory.models import Cluster
from portal.accounts.models import Project

_PRODUCT = (
    '"productName" in device.attributes["gpu.nvidia.com"] && '
    'device.attributes["gpu.nvidia.com"].productName.contains("{}")'
)
_NVIDIA = {"device_class": "gpu.nvidia.com"}

# slug, columns of the flavor, slugs of the projects that it is for, columns of each placement
_FLAVORS: tuple[tuple[str, dict[str, Any], tuple[str, ...], tuple[dict[str, Any], ...]], ...] = (
    (
        "a100-40g",
        {
            "name": "A100 40 GB",
            "icon": "cpu",
            "description": "The work horse: training and inference of models that fit into 40 GB.",
            "offers": "40 GB of memory\nAmpere, tensor cores",
            "max_count": 4,
            "default_memory": "40Gi",
            "max_memory": "40Gi",
        },
        (),
        ({**_NVIDIA, "selectors": [_PRODUCT.format("A100")]},),
    ),
    (
        "h100-80g",
        {
            "name": "H100 80 GB",
            "icon": "rocket",
            "description": "For what does not fit elsewhere.",
            "offers": "80 GB of memory\nHopper, transformer engine\nNVLink inside a node",
            "max_count": 8,
            "max_duration": timedelta(days=3),
        },
        (),
        ({**_NVIDIA, "selectors": [_PRODUCT.format("H100")]},),
    ),
    (
        "mig-slice",
        {
            "name": "Slice of a GPU",
            "icon": "layout-grid",
            "description": "A partition of a larger GPU: notebooks, courses, small experiments.",
            "offers": "Its own memory and compute units\nCheap enough to keep",
            "max_count": 2,
        },
        (),
        ({"device_class": "mig.nvidia.com"},),
    ),
    (
        "v100",
        {
            "name": "V100 32 GB",
            "icon": "server-2",
            "description": "Older machines, handed out by a Device Plugin until their drivers know DRA.",
            "max_count": 4,
        },
        (),
        (
            {
                **_NVIDIA,
                "extended_resource": "nvidia.com/gpu",
                "pool": "volta",
                "node_selector": {"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB"},
                "driver": "gpu.nvidia.com",
                "driver_versions": ">=580",
            },
        ),
    ),
    (
        "gaudi2",
        {
            "name": "Gaudi 2",
            "icon": "bolt",
            "description": "For those who have ported their models. A lead of the project has to agree.",
            "approval": Flavor.Approval.LEAD,
            "max_count": 8,
        },
        (),
        ({"device_class": "gaudi.intel.com"},),
    ),
    (
        "mi300x",
        {
            "name": "MI300X",
            "icon": "brain",
            "description": "192 GB in one device, for the weather models. An administrator has to agree.",
            "offers": "192 GB of memory",
            "approval": Flavor.Approval.ADMINISTRATOR,
            "visibility": Flavor.Visibility.PROJECTS,
            "max_count": 2,
        },
        ("weather-models",),
        ({"device_class": "gpu.amd.com"},),
    ),
)


def make_sample_catalogue(*, cluster: Cluster, now: datetime) -> None:
    """Make the flavors, unless there is a catalogue already. The cluster need not have been mirrored yet."""
    if Flavor.objects.exists():
        return
    for position, (slug, columns, projects, placements) in enumerate(_FLAVORS, 1):
        usual: dict[str, Any] = {
            "min_duration": timedelta(hours=1),
            "default_duration": timedelta(hours=24),
            "max_duration": timedelta(days=14),
        }
        flavor = Flavor.objects.create(
            slug=slug, position=position, created_at=now, changed_at=now, **usual | columns
        )
        flavor.projects.set(Project.objects.filter(slug__in=projects))
        for order, place in enumerate(placements, 1):
            Placement.objects.create(flavor=flavor, cluster=cluster, position=order, **place)
