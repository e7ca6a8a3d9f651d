"""Flavors and placements: what is refused, what changes, and that no change is lost."""

from typing import Any

import pytest
from django.contrib.auth.models import Group

from claims.asks.reading import WHOLE
from claims.catalogue import derive, flavor_terms, flavors, placements
from claims.catalogue.flavor_terms import UnableToChangeFlavor
from claims.catalogue.placement_terms import read_terms
from claims.catalogue.tolerations import lines_of
from claims.models import Flavor, Placement
from inventory.models import Cluster, DeviceClass
from portal.accounts.models import AuditEntry, Project
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast

TYPED: dict[str, Any] = {
    "slug": "h100-80g", "name": "H100 80 GB", "description": "For training", "offers": "80 GB\nNVLink",
    "icon": "brain", "min_count": "1", "default_count": "2", "max_count": "4", "min_memory": "",
    "default_memory": "40Gi", "max_memory": "80Gi", "min_hours": "2", "default_hours": "24",
    "max_hours": "168", "visibility": "all", "approval": "lead",
}  # fmt: skip


def errors_of(values: dict[str, Any]) -> dict[str, list[str]]:
    with pytest.raises(UnableToChangeFlavor) as refused:
        flavor_terms.read_terms(values)
    return refused.value.errors


# --- terms ------------------------------------------------------------------------------------------


def test_terms_are_stored_and_read_again_as_they_were(cast: Cast, project: Project) -> None:
    typed = {**TYPED, "visibility": "projects", "projects": [project.slug], "own_approval": "on"}
    terms = flavor_terms.read_terms(typed)
    made = flavors.create(terms=terms, user=cast.admin, now=NOW)
    assert flavor_terms.terms_of(Flavor.objects.get(pk=made.pk)) == terms
    entry = AuditEntry.objects.get(action="flavor.create")
    assert entry.after is not None
    assert (entry.actor, entry.after["projects"]) == (cast.admin, [project.slug])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("slug", "H100 80", "Lower-case letters"),
        ("slug", "", "Lower-case letters"),
        ("name", "", "Give it a name"),
        ("name", "x" * 121, "At most 120 characters"),
        ("icon", "../../etc/passwd", "Choose one of"),
        ("max_count", "33", "A number from 1 to 32"),
        ("default_count", "two", "is not a whole number"),
        ("default_count", "5", None),
        ("max_count", "1", "Less than the usual"),
        ("default_hours", "1", "Less than the least"),
        ("max_hours", "999999999999", "A number from 1 to 2160"),
        ("max_memory", "20Gi", "Less than the usual, 40Gi"),
        ("default_memory", "lots", "is not an amount of memory"),
        ("visibility", "nobody", "Choose one of"),
        ("approval", "committee", "Choose one of"),
        ("projects", ["no-such-project"], "There is no"),
        ("description", "a\x00b", "control character"),
    ],
)
def test_what_makes_no_sense_is_told_at_its_field(field: str, typed: Any, said: str | None) -> None:
    errors = errors_of({**TYPED, field: typed})
    if said is None:
        assert set(errors) == {"max_count"}
    else:
        assert said in errors[field][0]


@pytest.mark.django_db
def test_an_audience_of_nobody_is_refused() -> None:
    assert "at least one project" in errors_of({**TYPED, "visibility": "projects"})["projects"][0]
    assert "at least one group" in errors_of({**TYPED, "visibility": "groups"})["groups"][0]


@pytest.mark.django_db
def test_all_mistakes_are_told_at_once() -> None:
    errors = errors_of({**TYPED, "slug": "", "name": "", "max_count": "0", "min_memory": "?"})
    assert set(errors) == {"slug", "name", "max_count", "min_memory"}


# --- changing ---------------------------------------------------------------------------------------


def test_two_administrators_do_not_undo_each_other(cast: Cast) -> None:
    made = flavors.create(terms=flavor_terms.read_terms(TYPED), user=cast.admin, now=NOW)
    first = flavor_terms.read_terms({**TYPED, "max_count": "8"})
    second = flavor_terms.read_terms({**TYPED, "description": "For inference"})
    flavors.update(flavor=made, terms=first, seen_version=1, user=cast.admin, now=NOW)
    with pytest.raises(UnableToChangeFlavor, match="changed it meanwhile") as refused:
        flavors.update(flavor=made, terms=second, seen_version=1, user=cast.lead, now=NOW)
    assert refused.value.conflict
    stored = Flavor.objects.get()
    assert (stored.max_count, stored.description, stored.version) == (8, "For training", 2)
    (entry,) = AuditEntry.objects.filter(action="flavor.change")
    assert (entry.before, entry.after) == ({"max_count": 4}, {"max_count": 8})


def test_a_change_of_a_placement_is_a_change_of_the_flavor(cast: Cast, cluster: Cluster) -> None:
    made = catalogue.flavor()
    terms = read_terms({"cluster": "main", "device_class": "h100"})
    placements.save(flavor=made, placement=None, terms=terms, seen_version=1, user=cast.admin, now=NOW)
    with pytest.raises(UnableToChangeFlavor) as refused:
        placements.save(flavor=made, placement=None, terms=terms, seen_version=1, user=cast.admin, now=NOW)
    assert refused.value.conflict
    assert Placement.objects.count() == 1


def test_a_name_that_is_taken_is_refused_also_by_an_archived_flavor(cast: Cast) -> None:
    made = flavors.create(terms=flavor_terms.read_terms(TYPED), user=cast.admin, now=NOW)
    flavors.archive(flavor=made, archived=True, user=cast.admin, now=NOW)
    with pytest.raises(UnableToChangeFlavor, match="has it already"):
        flavors.create(terms=flavor_terms.read_terms(TYPED), user=cast.admin, now=NOW)


def test_archiving_is_repeatable_and_can_be_taken_back(cast: Cast) -> None:
    made = catalogue.flavor()
    for _again in range(2):
        flavors.archive(flavor=made, archived=True, user=cast.admin, now=NOW)
    assert made.archived_at == NOW
    assert not Flavor.objects.visible_to(cast.owner).exists()
    flavors.archive(flavor=made, archived=False, user=cast.admin, now=NOW)
    assert Flavor.objects.visible_to(cast.owner).get() == made
    assert [e.action for e in AuditEntry.objects.order_by("id")] == ["flavor.archive", "flavor.restore"]


def test_flavors_are_moved_one_place_and_stop_at_the_ends(cast: Cast) -> None:
    made = [catalogue.flavor(slug) for slug in ("a", "b", "c")]

    def order() -> list[str]:
        return list(Flavor.objects.order_by("position", "name").values_list("slug", flat=True))

    flavors.move(flavor=made[2], up=True, user=cast.admin, now=NOW)
    assert order() == ["a", "c", "b"]
    flavors.move(flavor=made[0], up=True, user=cast.admin, now=NOW)
    flavors.move(flavor=made[1], up=False, user=cast.admin, now=NOW)
    assert order() == ["a", "c", "b"]


# --- who sees it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visibility", "seen_by"),
    [
        ("all", {"owner", "lead", "stranger", "finance", "admin", "auditor"}),
        ("projects", {"owner", "lead", "admin", "auditor"}),
        ("leads", {"lead", "admin", "auditor"}),
        ("groups", {"stranger", "admin", "auditor"}),
        ("administrators", {"admin", "auditor"}),
    ],
)
def test_a_flavor_is_seen_by_whom_it_is_for(
    cast: Cast, project: Project, visibility: str, seen_by: set[str]
) -> None:
    made = catalogue.flavor(visibility=visibility)
    made.projects.add(project)
    group = Group.objects.create(name="pilots")
    made.groups.add(group)
    cast.stranger.groups.add(group)
    people = ("owner", "lead", "stranger", "finance", "admin", "auditor")
    found = {who for who in people if Flavor.objects.visible_to(getattr(cast, who)).exists()}
    assert found == seen_by


# --- placements -------------------------------------------------------------------------------------


PLACE: dict[str, Any] = {"cluster": "main", "device_class": "h100", "extended_resource": "nvidia.com/gpu"}


def refused_places(values: dict[str, Any]) -> dict[str, list[str]]:
    with pytest.raises(UnableToChangeFlavor) as refused:
        read_terms(values)
    return refused.value.errors


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("cluster", "elsewhere", "Choose a cluster"),
        ("device_class", "h200", "has no DeviceClass “h200”"),
        ("selectors", "device.driver ==", "Expression 1, line 1"),
        ("selectors", "true\n\ndevice.nope", "Expression 2"),
        ("selectors", ["x" * 11_000], "at most 10 KiB"),
        ("config", "opaque: 1", "not a list"),
        ("config", "- opaque: {driver: gpu.nvidia.com}", "has `parameters`"),
        ("config", [{"requests": ["x"], "opaque": {}}], "nothing else"),
        ("device_tolerations", "gpu.nvidia.com/xid:Never", "The effect of a taint"),
        ("tolerations", "=x", "is no key of a taint"),
        ("node_selector", "pool", "one label a line"),
        ("node_selector", "pool=a b", "is no label"),
        ("extended_resource", "gpu", "domain/name"),
        ("kubernetes", "newish", "is no bound"),
        ("driver_versions", ">=580", None),
        ("pool", "a", None),
        ("stage", "later", "Choose one of"),
    ],
)
def test_a_placement_that_cannot_be_right_is_told_at_its_field(
    field: str, typed: Any, said: str | None
) -> None:
    errors = refused_places({**PLACE, field: typed})
    if said is None:
        assert set(errors) <= {"driver", "node_selector"}
    else:
        assert any(said in message for message in errors[field]), errors


@pytest.mark.usefixtures("cluster")
def test_a_placement_serves_somehow() -> None:
    assert "Name a DeviceClass" in refused_places({"cluster": "main"})["device_class"][0]
    errors = refused_places({"cluster": "main", "extended_resource": "a.b/c", "selectors": "true"})
    assert "none is named" in errors["selectors"][0]


@pytest.mark.usefixtures("cluster")
def test_text_and_json_say_the_same() -> None:
    text = {
        **PLACE,
        "selectors": 'device.driver == "gpu.nvidia.com"\n\ntrue',
        "node_selector": "pool=a\nzone=b",
        "tolerations": "gpu=yes:NoSchedule\nspot",
        "config": "- opaque:\n    driver: gpu.nvidia.com\n    parameters: {sharing: none}",
    }
    parsed = {
        **PLACE,
        "selectors": ['device.driver == "gpu.nvidia.com"', "true"],
        "node_selector": {"pool": "a", "zone": "b"},
        "tolerations": [
            {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
            {"key": "spot", "operator": "Exists"},
        ],
        "config": [{"opaque": {"driver": "gpu.nvidia.com", "parameters": {"sharing": "none"}}}],
    }
    assert read_terms(text).columns == read_terms(parsed).columns
    assert lines_of(parsed["tolerations"]) == text["tolerations"]


def test_what_may_become_right_is_a_warning(cast: Cast, cluster: Cluster) -> None:
    made = catalogue.flavor()
    row = catalogue.placement(
        made, cluster, device_class="none", extended_resource="nvidia.com/gpu", selectors=["false"],
        node_selector={"pool": "a"},
    )  # fmt: skip
    said = {finding.name for finding in placements.findings(row)}
    assert said == {"device_class", "selectors", "extended_resource", "node_selector"}
    catalogue.units(cluster)
    whole = catalogue.placement(
        catalogue.flavor("fine"), cluster, device_class="h100", extended_resource="nvidia.com/gpu"
    )
    assert placements.findings(whole) == []
    DeviceClass.objects.filter(name="h100").delete()
    assert [finding.name for finding in placements.findings(whole)] == ["device_class"]


def test_a_place_is_switched_to_dra_and_back(cast: Cast, cluster: Cluster) -> None:
    row = catalogue.placement(catalogue.flavor(), cluster, extended_resource="nvidia.com/gpu")
    for stage in (Placement.Stage.DRA, Placement.Stage.DRA, Placement.Stage.PLUGIN):
        placements.switch(placement=row, stage=stage, user=cast.admin, now=NOW)
    assert row.stage == Placement.Stage.PLUGIN
    entries = AuditEntry.objects.filter(action="placement.change").order_by("id")
    assert [entry.after for entry in entries] == [{"stage": "dra"}, {"stage": "device-plugin"}]
    assert Flavor.objects.get().version == 3
    single = catalogue.placement(catalogue.flavor("a100"), cluster)
    with pytest.raises(UnableToChangeFlavor, match="only one way"):
        placements.switch(placement=single, stage=Placement.Stage.DRA, user=cast.admin, now=NOW)


def test_one_pool_serves_a_flavor_once(cast: Cast, cluster: Cluster) -> None:
    made = catalogue.flavor()
    catalogue.placement(made, cluster)
    with pytest.raises(UnableToChangeFlavor, match="served there already"):
        placements.save(
            flavor=made, placement=None, terms=read_terms(PLACE), seen_version=1, user=cast.admin, now=NOW
        )
    assert Flavor.objects.get().version == 1


# --- deriving ---------------------------------------------------------------------------------------


def test_flavors_are_derived_from_classes_products_and_resources(cast: Cast, cluster: Cluster) -> None:
    DeviceClass.objects.filter(name="h100").update(extended_resource_name="nvidia.com/gpu")
    catalogue.units(cluster)
    keys = [proposal.key for proposal in derive.proposals()]
    assert keys == [
        "class:a100:", "class:gpu:", "class:gpu:A100", "class:gpu:H100", "class:h100:",
        "resource:nvidia.com/gpu",
    ]  # fmt: skip
    made = derive.derive(key="class:h100:", user=cast.admin, now=NOW)
    row = made.placements.get()
    assert (made.slug, row.device_class, row.extended_resource) == ("h100", "h100", "nvidia.com/gpu")
    product = derive.derive(key="class:gpu:H100", user=cast.admin, now=NOW)
    assert (product.slug, product.name) == ("h100-2", "H100-2")
    assert '"productName" in device.attributes' in product.placements.get().selectors[0]
    assert placements.findings(product.placements.get()) == []
    made_now = {proposal.key: proposal.made for proposal in derive.proposals()}
    assert made_now["class:h100:"] == ["H100"]
    assert made_now["class:gpu:H100"] == ["H100-2"]


def test_what_is_gone_is_not_derived(cast: Cast, cluster: Cluster) -> None:
    with pytest.raises(UnableToChangeFlavor) as refused:
        derive.derive(key="class:h200:", user=cast.admin, now=NOW)
    assert WHOLE in refused.value.errors
    assert not Flavor.objects.exists()
