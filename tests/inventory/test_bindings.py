"""Whose a namespace is."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

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


def test_a_period_with_an_end_leaves_room_before_and_after(
    cluster: Cluster, project: Project, other: Project
) -> None:
    bindings.bind(
        cluster=cluster,
        namespace="ns",
        project=project,
        now=NOW,
        valid_from=NOW + DAY,
        valid_until=NOW + 3 * DAY,
    )
    for start, until in [(0, None), (0, 2), (1, 3), (2, None), (2, 2.5)]:
        with pytest.raises(bindings.UnableToBind, match="Weather models"):
            bindings.bind(
                cluster=cluster,
                namespace="ns",
                project=other,
                now=NOW,
                valid_from=NOW + start * DAY,
                valid_until=None if until is None else NOW + until * DAY,
            )
    bindings.bind(cluster=cluster, namespace="ns", project=other, now=NOW, valid_until=NOW + DAY)
    bindings.bind(cluster=cluster, namespace="ns", project=other, now=NOW, valid_from=NOW + 3 * DAY)
    owners = [bindings.project_of(cluster, "ns", NOW + n * DAY) for n in (0, 1, 2, 3)]
    assert owners == [other, project, project, other]


def test_an_empty_period_is_refused(cluster: Cluster, project: Project) -> None:
    with pytest.raises(bindings.UnableToBind) as refused:
        bindings.bind(cluster=cluster, namespace="ns", project=project, now=NOW, valid_until=NOW)
    assert refused.value.field == "valid_until"


@pytest.mark.parametrize("until", [2, 5])
def test_an_end_can_be_set_ahead_and_moved(cluster: Cluster, project: Project, until: int) -> None:
    binding = bindings.bind(cluster=cluster, namespace="ns", project=project, now=NOW)
    bindings.end(binding=binding, valid_until=NOW + 3 * DAY, now=NOW)
    bindings.end(binding=binding, valid_until=NOW + until * DAY, now=NOW + DAY)
    assert NamespaceBinding.objects.get().valid_until == NOW + until * DAY
    entry = AuditEntry.objects.order_by("-pk")[0]
    assert entry.action == "namespace.unbind"
    assert entry.before is not None


def test_an_end_is_neither_in_the_past_nor_over_the_next_ones_start(
    cluster: Cluster, project: Project, other: Project
) -> None:
    binding = bindings.bind(
        cluster=cluster, namespace="ns", project=project, now=NOW, valid_until=NOW + 2 * DAY
    )
    bindings.bind(cluster=cluster, namespace="ns", project=other, now=NOW, valid_from=NOW + 3 * DAY)
    for until, now in [(0.5, 1), (4, 1), (0, 0)]:
        with pytest.raises(bindings.UnableToBind):
            bindings.end(binding=binding, valid_until=NOW + until * DAY, now=NOW + now * DAY)
    with pytest.raises(bindings.UnableToBind, match="ended already"):
        bindings.end(binding=binding, valid_until=NOW + 3 * DAY, now=NOW + 2 * DAY)
    assert NamespaceBinding.objects.get(pk=binding.pk).valid_until == NOW + 2 * DAY


def test_ending_one_with_a_later_end_cuts_it_short(cluster: Cluster, project: Project) -> None:
    binding = bindings.bind(
        cluster=cluster, namespace="ns", project=project, now=NOW, valid_until=NOW + 9 * DAY
    )
    bindings.unbind(binding=binding, now=NOW + DAY)
    assert NamespaceBinding.objects.get().valid_until == NOW + DAY


@pytest.mark.parametrize("changing", [False, True])
def test_the_database_itself_refuses_overlapping_periods(
    cluster: Cluster, project: Project, other: Project, changing: bool
) -> None:
    NamespaceBinding.objects.create(
        cluster=cluster, namespace="ns", project=project, valid_from=NOW, valid_until=NOW + 2 * DAY
    )
    late = NamespaceBinding.objects.create(
        cluster=cluster, namespace="ns", project=other, valid_from=NOW + 2 * DAY
    )

    def overlap() -> None:
        if changing:
            NamespaceBinding.objects.filter(pk=late.pk).update(valid_from=NOW + DAY)
        else:
            NamespaceBinding.objects.create(
                cluster=cluster, namespace="ns", project=other, valid_from=NOW - DAY, valid_until=NOW + DAY
            )

    with pytest.raises(IntegrityError), transaction.atomic():
        overlap()
    assert NamespaceBinding.objects.count() == 2
