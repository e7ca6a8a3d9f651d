"""Whose a namespace is."""

from datetime import timedelta

import pytest

from inventory import bindings
from inventory.models import Cluster, NamespaceBinding
from portal.accounts.models import AuditEntry, Project
from tests.inventory.conftest import NOW

DAY = timedelta(days=1)


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(slug="weather", name="Weather models", created_at=NOW)


@pytest.fixture
def other(db: None) -> Project:
    return Project.objects.create(slug="folding", name="Protein folding", created_at=NOW)


def test_a_binding_holds_from_its_start_until_its_end(cluster: Cluster, project: Project) -> None:
    binding = bindings.bind(cluster=cluster, namespace="ns", project=project, now=NOW)
    bindings.unbind(binding=binding, now=NOW + DAY)
    owners = [bindings.project_of(cluster, "ns", NOW + n * DAY / 2) for n in (-1, 0, 1, 2)]
    assert owners == [None, project, project, None]
    assert [entry.action for entry in AuditEntry.objects.order_by("id")] == [
        "namespace.bind",
        "namespace.unbind",
    ]


def test_a_namespace_belongs_to_one_project_at_a_time(
    cluster: Cluster, project: Project, other: Project
) -> None:
    binding = bindings.bind(cluster=cluster, namespace="ns", project=project, now=NOW)
    with pytest.raises(bindings.UnableToBind, match="Weather models"):
        bindings.bind(cluster=cluster, namespace="ns", project=other, now=NOW + DAY)
    bindings.unbind(binding=binding, now=NOW + DAY)
    with pytest.raises(bindings.UnableToBind):
        bindings.bind(cluster=cluster, namespace="ns", project=other, now=NOW, valid_from=NOW)
    bindings.bind(cluster=cluster, namespace="ns", project=other, now=NOW + DAY)
    assert [b.namespace for b in bindings.namespaces_of(other)] == ["ns"]
    assert bindings.namespaces_of(project) == []
    assert len(bindings.namespaces_of(project, at=NOW)) == 1


def test_a_binding_that_never_held_leaves_no_empty_period(cluster: Cluster, project: Project) -> None:
    binding = bindings.bind(cluster=cluster, namespace="ns", project=project, now=NOW, valid_from=NOW + DAY)
    bindings.unbind(binding=binding, now=NOW)
    assert NamespaceBinding.objects.count() == 0


def test_unbinding_twice_changes_nothing(cluster: Cluster, project: Project) -> None:
    binding = bindings.bind(cluster=cluster, namespace="ns", project=project, now=NOW)
    bindings.unbind(binding=binding, now=NOW + DAY)
    bindings.unbind(binding=binding, now=NOW + 2 * DAY)
    assert NamespaceBinding.objects.get().valid_until == NOW + DAY


def test_the_same_namespace_of_two_clusters_is_two(
    cluster: Cluster, project: Project, other: Project
) -> None:
    second = Cluster.objects.create(name="beta", credentials="in-cluster", created_at=NOW)
    bindings.bind(cluster=cluster, namespace="ns", project=project, now=NOW)
    bindings.bind(cluster=second, namespace="ns", project=other, now=NOW)
    assert bindings.project_of(second, "ns", NOW) == other
