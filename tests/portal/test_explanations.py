"""What clusters say is told in the reader's words where it is known."""

import pytest
from django.template import Context, Template
from django.utils import translation

from portal.explanations import explained

UNSCHEDULABLE = (
    "0/6 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint "
    "{node.kubernetes.io/unreachable: }, 3 cannot allocate all claims. preemption: 0/6 nodes are available: "
    "6 Preemption is not helpful for scheduling."
)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            UNSCHEDULABLE,
            [
                "None of 6 nodes fits.",
                "1 cordoned.",
                "2 kept free by the taint node.kubernetes.io/unreachable.",
                "3 without enough free devices that fit the claims.",
            ],
        ),
        ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", [
            "None of 1 nodes fits.", "1 with too little nvidia.com/gpu left.",
        ]),
        ("couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor h100", [
            "The queue's quota of nvidia.com/gpu is used up.",
        ]),
        ("DeviceClass b200 was not found", ["DeviceClass b200 does not exist there."]),
        ('pods "x" not found', ["pods x does not exist there."]),
        ('pods is forbidden: User "desk" cannot create resource "pods" in API group ""', [
            "The desk's account may not do this there: create pods.",
        ]),
        ("https://x.example.org:6443 cannot be reached: connection refused", [
            "Nothing answers at the cluster's address.",
        ]),
        ("found no matching overload for '_>=_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'", [
            "Quantities are compared by a.compareTo(b) >= 0, not by a sign between them.",
        ]),
        ("the moon is in the wrong house", []),
        ("", []),
    ],
)  # fmt: skip
def test_known_messages(text: str, sentences: list[str]) -> None:
    assert explained(text) == sentences


def test_in_chinese() -> None:
    with translation.override("zh-hans"):
        told = explained(UNSCHEDULABLE)
    assert told[0] == "6 个节点都不合适。"
    assert len(told) == 4


def test_a_huge_text_is_no_burden() -> None:
    assert explained("0/" * 2_000_000) == []


def test_the_original_stands_beneath_and_is_only_text() -> None:
    html = Template("{% load ui %}{% cluster_says text %}").render(Context({"text": "Unauthorized <b>"}))
    assert "does not accept the desk&#x27;s credentials" in html
    assert '<p class="cd-says-original" lang="en">Unauthorized &lt;b&gt;</p>' in html
    assert Template("{% load ui %}{% cluster_says text %}").render(Context({"text": ""})).strip() == ""
