"""A node is emptied step by step, and called empty only when the mirror shows it."""

import re
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.http import Http404
from django.urls import reverse

from inventory.models import CountedUnits, Drain, Maintenance, Node, Pod, Stream
from inventory.taints import answers, drains, emptiness, keeping
from inventory.taints.answers import UnableToAnswer
from inventory.taints.drains import MovedMeanwhile, UnableToDrain
from inventory.taints.places import read_place
from portal.accounts.models import Notification
from portal.kube import errors
from tests.inventory_taints.conftest import Town
from tests.inventory_taints.fakes import mirror_rules

HOUR = timedelta(hours=1)


def begin(town: Town, node: str = "gpu-01") -> Drain:
    where = read_place(cluster=town.cluster, scope="node", node=node)
    return drains.open_drain(where=where, reason="new fans", actor=town.cast.administrator, now=town.now)


def who(town: Town, drain: Drain, **more: Any) -> dict[str, Any]:
    return {
        "drain": drain, "seen_version": drain.version, "actor": town.cast.administrator, "now": town.now,
    } | more  # fmt: skip


# SQLite lets one transaction after the other begin.
@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_of_two_who_begin_at_the_same_moment_one_is_told_so(transactional_db: None, town: Town) -> None:
    said: list[str] = []
    through = threading.Event()

    def second() -> None:
        try:
            begin(town)
        except UnableToDrain as error:
            said.append(error.message)
        finally:
            through.set()
            connection.close()

    thread = threading.Thread(target=second)
    with transaction.atomic():
        begin(town)
        thread.start()
        # It would be through by now if it did not wait for us.
        through.wait(timeout=0.5)
    thread.join(timeout=60)
    assert said == ["It is being emptied already."]
    assert Drain.objects.count() == 1


def test_asking_again_with_the_same_time_does_not_move_it(town: Town) -> None:
    drain = begin(town)
    until = (town.now + 2 * HOUR).replace(second=37, microsecond=123)
    drains.ask(**who(town, drain), message="Please finish.", wanted_by=until)
    client = town.client("administrator")
    html = client.get(reverse("drain-detail", args=[drain.key])).content.decode()
    (drawn,) = re.findall(r'type="datetime-local" name="wanted_by" value="([^"]+)"', html)
    drain.refresh_from_db()
    values = {"message": "Please hurry.", "wanted_by": drawn, "version": drain.version}
    assert client.post(reverse("drain-ask", args=[drain.key]), values).status_code in (302, 303)
    drain.refresh_from_db()
    assert drain.wanted_by == until


def test_from_used_to_empty_to_maintenance_and_back(town: Town) -> None:
    drain = begin(town)
    (holder,) = drain.holders.all()
    assert (holder.name, holder.request_key, holder.things) == ("harmonics", town.request.key, ["gpu-0"])
    assert holder.held_until == town.request.expires_at
    assert town.fake.rules == {}, "nothing happens on the cluster yet"

    assert drains.ask(**who(town, drain), message="Please finish.", wanted_by=town.now + HOUR) == 1
    note = Notification.objects.get(person=town.cast.member, kind="maintenance")
    assert note.url == reverse("drain-detail", args=[drain.key])

    holder.refresh_from_db()
    answers.answer(
        holder=holder, said="by", by=town.now + HOUR, note_="last epoch", actor=town.cast.member, now=town.now
    )
    assert Notification.objects.filter(person=town.cast.administrator, kind="maintenance").count() == 1

    drains.close(**who(town, drain))
    assert list(town.fake.effects.values()) == ["NoSchedule"]
    emptiness.watch(now=town.now)
    drain.refresh_from_db()
    assert drain.state == "closed", "somebody is still there"

    drains.evict(**who(town, drain))
    assert list(town.fake.effects.values()) == ["NoExecute"]
    town.vacate()
    emptiness.watch(now=town.now)
    drain.refresh_from_db()
    holder.refresh_from_db()
    assert (drain.state, drain.empty_at, holder.gone_at) == ("empty", town.now, town.now)
    assert drain.evidence["resource_versions"]["resourceclaims"] == "1000"
    assert drain.evidence["rules"] == list(town.fake.rules)
    assert len(drain.evidence["devices"]) == 2

    begun = drains.hand_over(**who(town, drain), ends_at=town.now + HOUR, reason="")
    keeping.keep(now=town.now)
    drain.refresh_from_db()
    assert (drain.state, begun.state, len(town.fake.rules)) == ("maintenance", "active", 1)
    keeping.keep(now=town.now + HOUR)
    drain.refresh_from_db()
    begun.refresh_from_db()
    assert (drain.state, begun.state, town.fake.rules) == ("done", "ended", {})
    assert [event.what for event in drain.events.order_by("pk")] == [
        *("opened", "asked", "answered", "closed", "evicting", "empty", "handed-over", "done")
    ]


def test_nothing_is_called_empty_while_the_mirror_is_stale(town: Town) -> None:
    drain = begin(town)
    drains.close(**who(town, drain))
    town.vacate()
    town.silence()
    emptiness.watch(now=town.now)
    drain.refresh_from_db()
    assert drain.state == "closed"
    assert "nothing can be confirmed" in emptiness.judge(drain, now=town.now).reasons[0]
    assert drain.holders.filter(gone_at=None).count() == 1, "who is there is not forgotten either"


def test_nor_while_the_desk_does_not_hear_of_pods(town: Town) -> None:
    drain = begin(town)
    drains.close(**who(town, drain))
    town.vacate()
    Stream.objects.filter(resource="pods").update(state="not-permitted")
    emptiness.watch(now=town.now)
    drain.refresh_from_db()
    assert drain.state == "closed"


def test_nor_while_newcomers_could_come(town: Town) -> None:
    drain = begin(town, "gpu-02")
    drains.close(**who(town, drain))
    town.fake.objects.clear()
    later = town.now + timedelta(minutes=10)
    Stream.objects.update(heard_at=later)
    type(town.cluster).objects.update(contacted_at=later)
    emptiness.watch(now=later)
    drain.refresh_from_db()
    assert drain.state == "closed"
    assert "newcomers" in emptiness.judge(drain, now=later).reasons[0]


def test_counted_units_hold_a_node_too_and_need_a_cordon(town: Town) -> None:
    drain = begin(town, "gpu-02")
    drains.close(**who(town, drain))
    CountedUnits.objects.create(
        cluster=town.cluster, node_name="gpu-02", resource="nvidia.com/gpu", vendor="NVIDIA",
        product="Tesla T4", kind="gpu", capacity=2, allocatable=2, used=1, free=1,
    )  # fmt: skip
    Pod.objects.create(
        cluster=town.cluster, namespace="tides", name="old", uid="old", resource_version="1", phase="Running",
        node_name="gpu-02", extended_resources={"nvidia.com/gpu": 1},
    )  # fmt: skip
    verdict = emptiness.judge(drain, now=town.now)
    assert [hold.name for hold in verdict.holds] == ["old"]
    assert "cordon" in verdict.reasons[-1]
    Pod.objects.filter(name="old").update(phase="Succeeded")
    Node.objects.filter(name="gpu-02").update(unschedulable=True)
    emptiness.watch(now=town.now)
    drain.refresh_from_db()
    assert (drain.state, drain.evidence["cordoned"]) == ("empty", True)


def test_without_rules_a_cordon_by_hand_closes_the_node(town: Town) -> None:
    type(town.cluster).objects.update(served={})
    drain = begin(town, "gpu-02")
    drain = Drain.objects.get(pk=drain.pk)
    with pytest.raises(UnableToDrain, match="Cordon"):
        drains.close(**who(town, drain))
    Node.objects.filter(name="gpu-02").update(unschedulable=True)
    drains.close(**who(town, drain))
    with pytest.raises(UnableToDrain):
        drains.evict(**who(town, drain))
    emptiness.watch(now=town.now)
    drain.refresh_from_db()
    assert (drain.state, town.fake.rules) == ("empty", {})


def test_each_step_is_taken_from_where_it_may_be_and_over_what_was_seen(town: Town) -> None:
    drain = begin(town)
    for step in (
        drains.evict,
        lambda **given: drains.hand_over(**given, ends_at=town.now + HOUR, reason=""),
    ):
        with pytest.raises(MovedMeanwhile):
            step(**who(town, drain))
    with pytest.raises(MovedMeanwhile):
        drains.close(**who(town, drain, seen_version=7))
    assert town.fake.rules == {}, "refused before the cluster was asked"
    with pytest.raises(UnableToDrain, match="already"):
        begin(town)


def test_given_up_its_taints_go_even_when_the_cluster_is_away_for_a_while(town: Town) -> None:
    drain = begin(town)
    drains.close(**who(town, drain))
    town.fake.fail["delete"] = errors.Unreachable("gone fishing")
    assert drains.finish(**who(town, drain)) == 1
    mirror_rules(town.cluster, town.fake)
    assert (drain.state, len(town.fake.rules)) == ("cancelled", 1)
    assert "left over" in town.client("administrator").get("/taints/?left=1").content.decode()
    town.fake.fail.clear()
    keeping.keep(now=town.now)
    assert town.fake.rules == {}


def test_a_refusal_of_the_cluster_leaves_the_step_untaken_and_says_why(town: Town) -> None:
    drain = begin(town)
    town.fake.fail["create"] = errors.Forbidden("may not create devicetaintrules", status=403)
    with pytest.raises(UnableToDrain, match="may not create"):
        drains.close(**who(town, drain))
    drain.refresh_from_db()
    assert (drain.state, drain.problem) == ("open", "may not create devicetaintrules")
    town.fake.fail.clear()
    drains.close(**who(town, drain))
    assert drain.problem == ""


@pytest.mark.parametrize(
    ("said", "hours", "words", "field"),
    [
        ("by", None, "", "by"),
        ("by", -1, "", "by"),
        ("by", 24 * 1000, "", "by"),
        ("cannot", None, "", "note"),
        ("done", None, "a\x00", "note"),
        ("done", None, "x" * 501, "note"),
        ("perhaps", None, "", "answer"),
    ],
)
def test_senseless_answers_are_refused_by_field(
    town: Town, said: str, hours: int | None, words: str, field: str
) -> None:
    (holder,) = begin(town).holders.all()
    by = town.now + hours * HOUR if hours is not None else None
    with pytest.raises(UnableToAnswer) as refused:
        answers.answer(holder=holder, said=said, by=by, note_=words, actor=town.cast.member, now=town.now)
    assert refused.value.field == field


def test_holders_see_their_part_and_strangers_nothing(town: Town) -> None:
    drain = begin(town)
    (holder,) = drain.holders.all()
    with pytest.raises(Http404):
        answers.get_drain_or_404(town.cast.stranger, drain.key)
    html = town.client("teammate").get(f"/drains/{drain.key}/").content.decode()
    assert "tides/harmonics" in html
    assert "Let nobody new in" not in html
    answering = f"/drain-holders/{holder.key}/answer/"
    for role, status in (("stranger", 404), ("auditor", 403), ("finance", 404), ("teammate", 303)):
        sent = {f"{holder.pk}-answer": "done"}
        assert town.client(role).post(answering, sent).status_code == status, role
    holder.refresh_from_db()
    assert (holder.answer, holder.answered_by) == ("done", town.cast.teammate)


def test_maintenance_that_was_begun_by_hand_over_cannot_outlive_its_rules(town: Town) -> None:
    town.vacate()
    drain = begin(town)
    drains.close(**who(town, drain))
    emptiness.watch(now=town.now)
    drain.refresh_from_db()
    drains.hand_over(**who(town, drain), ends_at=town.now + HOUR, reason="board swap")
    # A worker that ticks at the same moment.
    keeping.keep(now=town.now)
    keeping.keep(now=town.now)
    found = Maintenance.objects.get()
    assert (found.key, found.reason, len(town.fake.rules)) == (drain.key, "board swap", 1)


def test_of_two_who_hand_over_at_the_same_moment_one_is_told_so(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain = begin(town)
    Drain.objects.filter(pk=drain.pk).update(state=Drain.State.EMPTY)
    drain.refresh_from_db()
    stale = Drain.objects.get(pk=drain.pk)
    drains.hand_over(**who(town, drain), ends_at=town.now + HOUR, reason="")
    look = drains._look
    looked: list[Any] = []

    def look_too_early(*args: Any) -> None:
        # The second looked when the first was not done yet.
        if looked:
            look(*args)
        looked.append(args)

    monkeypatch.setattr(drains, "_look", look_too_early)
    with pytest.raises(MovedMeanwhile):
        drains.hand_over(**who(town, stale), ends_at=town.now + HOUR, reason="")
    assert Maintenance.objects.count() == 1
