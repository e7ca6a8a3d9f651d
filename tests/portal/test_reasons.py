"""The engine's reasons in the reader's language."""

import pytest
from django.utils import translation

from portal.dra.outcomes import Reason
from portal.dra.phrases import PHRASES
from portal.reasons import in_words


@pytest.mark.parametrize("code", PHRASES)
def test_english_is_what_the_engine_says(code: str) -> None:
    reason = Reason(code=code, params={"node": "n1", "at": "claim a/b", "device": "gpu-0"})

    assert in_words(reason) == str(reason)


def test_chinese_is_chinese_with_the_same_facts() -> None:
    with translation.override("zh-hans"):
        assert in_words(Reason(code="node-cordoned", params={"node": "n1"})) == "节点 n1 已被设为不可调度"


def test_a_reason_inside_a_reason_is_translated_too() -> None:
    why = Reason(code="node-not-ready", params={"node": "n1"})
    reason = Reason(code="miss-node", params={"request": "gpu", "before": 3, "why": why})

    with translation.override("zh-hans"):
        assert in_words(reason).endswith("节点 n1 未就绪")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_place_that_is_not_known_leaves_no_colon(language: str) -> None:
    with translation.override(language):
        assert in_words(Reason(code="unknown-class", params={"device_class": "x"}))[0] not in ":："


def test_a_code_without_a_sentence_is_shown() -> None:
    assert in_words(Reason(code="brand-new", params={"a": 1})) == "brand-new {'a': 1}"
