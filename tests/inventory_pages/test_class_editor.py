"""The editor of classes: either way of writing, what helps while typing, the effect, and import."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from inventory import classes
from inventory.models import DeviceClass
from tests.inventory_pages.conftest import Cast, Fleet
from tests.inventory_pages.test_class_admin import CHECK, CREATE, EXPRESSION, asked

EDIT = "/classes/berlin/gpu.nvidia.com/edit/"
EFFECT, IMPORT, ATTRIBUTES = "/class-effect/", "/import-classes/", "/class-attributes/"
UNGUARDED = 'device.attributes["gpu.nvidia.com"].type == "gpu"'
TEXT = (
    "apiVersion: resource.k8s.io/v1beta2\nkind: DeviceClass\nmetadata:\n  name: big\n"
    "spec:\n  selectors:\n  - cel:\n      expression: device.driver == 'gpu.amd.com'\n"
)


@pytest.fixture
def ada(cast: Cast) -> Client:
    return cast.client("administrator")


def page(response: Any, status: int = 200) -> str:
    assert response.status_code == status
    return str(response.content.decode())


# --- form and YAML ----------------------------------------------------------------------------------


def test_a_form_becomes_yaml_and_a_form_again_with_all_that_was_typed(ada: Client, fleet: Fleet) -> None:
    typed = asked(
        switch="yaml",
        expression=[EXPRESSION, "true"],
        extended_resource_name="example.com/gpu",
        config="- opaque: {driver: gpu.nvidia.com, parameters: {kind: GpuConfig}}",
        labels="example.org/team: physics",
        reason="more of it",
    )
    response = ada.post(CREATE, typed)
    html = page(response)
    text = response.context["form"].initial["text"]
    for part in ("name: big", "example.org/team: physics", "example.com/gpu", "kind: GpuConfig"):
        assert part in text
    assert 'name="mode" value="yaml"' in html
    assert 'value="more of it"' in html
    back = ada.post(CREATE, {"mode": "yaml", "text": text, "switch": "form", "cluster": "berlin"})
    form = back.context["form"]
    assert form.expressions == [EXPRESSION, "true"]
    assert form.initial["labels"] == "example.org/team: physics\n"
    assert 'value="example.com/gpu"' in page(back)


def test_a_mistake_in_yaml_is_said_with_its_line_and_the_text_stays(ada: Client, fleet: Fleet) -> None:
    wrong = TEXT.replace("selectors", "selektors")
    for button in ("switch", "save"):
        html = page(
            ada.post(CREATE, {"mode": "yaml", "text": wrong, "cluster": "berlin", button: "form"}), 422
        )
        assert "Line 6, column 3: A class has no field “spec.selektors”." in html
        assert "selektors:" in html


def test_a_half_typed_form_without_a_name_can_be_turned(ada: Client, fleet: Fleet) -> None:
    assert "name: &#x27;&#x27;" in page(ada.post(CREATE, asked(name="", cluster="", switch="yaml")))
    html = page(ada.post(CREATE, asked(config="a: b: c", switch="yaml")), 422)
    assert "This is not YAML: line 1" in html


def test_yaml_is_saved_as_a_form_is(ada: Client, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(classes, "create_class", lambda **wanted: made.append(wanted))
    assert ada.post(CREATE, {"mode": "yaml", "text": TEXT, "cluster": "berlin"}).status_code == 303
    (found,) = made
    assert found["name"] == "big"
    assert found["wanted"].expressions == ["device.driver == 'gpu.amd.com'"]


def test_the_name_of_a_class_that_is_there_cannot_be_changed_in_yaml(ada: Client, fleet: Fleet) -> None:
    html = page(ada.post(EDIT, {"mode": "yaml", "text": TEXT, "seen_version": "7"}), 422)
    assert "this one is gpu.nvidia.com" in html


def test_labels_that_nobody_touched_stay_as_they_are(
    ada: Client, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeviceClass.objects.filter(name="gpu.nvidia.com").update(labels={"a": "1", "b": "2"})
    asked_for: list[Any] = []
    monkeypatch.setattr(classes, "update_class", lambda **wanted: asked_for.append(wanted["wanted"].labels))
    filled = ada.get(EDIT).context["form"].initial
    same = {name: filled[name] for name in ("labels", "labels_were", "annotations_were", "seen_version")}
    ada.post(EDIT, asked(**same))
    ada.post(EDIT, asked(**{**same, "labels": "b: '2'"}))
    ada.post(EDIT, asked(**{**same, "labels": ""}))
    assert asked_for == [None, {"b": "2"}, {}]
    assert "write it in quotes" in page(ada.post(EDIT, asked(**{**same, "labels": "b: 2"})), 422)


# --- while typing -----------------------------------------------------------------------------------


def test_an_unsafe_expression_is_offered_with_its_guard(ada: Client, fleet: Fleet) -> None:
    safe = "device.driver == &quot;gpu.nvidia.com&quot; &amp;&amp; device.attributes"
    html = page(ada.post(CHECK, {"expression": [UNGUARDED], "index": "0", "cluster": "berlin"}))
    assert f'data-guarded="{safe}' in html
    taken = ada.post(CREATE, asked(expression=["true", UNGUARDED], guard="1"))
    assert taken.context["form"].expressions == ["true", f'device.driver == "gpu.nvidia.com" && {UNGUARDED}']


def test_what_devices_have_is_there_to_read_and_to_choose_from(ada: Client, fleet: Fleet) -> None:
    html = page(ada.get(ATTRIBUTES, {"cluster": "berlin"}))
    assert 'data-complete="device.attributes[&quot;gpu.nvidia.com&quot;].productName"' in html
    assert html in page(ada.get(EDIT)).replace("\n\n", "\n") or "device.attributes" in page(ada.get(EDIT))
    assert "Choose a cluster" in page(ada.get(ATTRIBUTES, {"cluster": "nowhere\x00"}))


def test_an_example_begins_a_class(ada: Client, fleet: Fleet) -> None:
    html = page(ada.get(CREATE, {"example": "amd-whole", "cluster": "berlin"}))
    assert 'value="amd-whole"' in html
    assert "gpu.amd.com&quot;].type == &quot;amdgpu&quot;</textarea>" in html
    page(ada.get(CREATE, {"example": "no such"}))


# --- the effect -------------------------------------------------------------------------------------


def test_the_effect_is_told_while_typing(ada: Client, fleet: Fleet) -> None:
    DeviceClass.objects.create(cluster=fleet.cluster, name="all", uid="all", resource_version="1", spec={})
    typed = {"class": "gpu.nvidia.com", "cluster": "berlin", "seen_version": "7"}
    html = page(ada.post(EFFECT, {**typed, "expression": ['device.driver == "gpu.amd.com"']}))
    assert "3 → <strong>2</strong>" in html
    assert "hold a device that would match no longer" in html
    assert 'all <span class="inv-sub">3 → 2</span>' in html
    assert 'hx-vals=\'{"waiting": "1", "round": "0"}\'' in html
    more = page(ada.post(EFFECT, {**typed, "expression": ["true"], "waiting": "1"}))
    assert "Claims that wait" in more
    failing = page(ada.post(EFFECT, {**typed, "expression": [UNGUARDED]}))
    assert "lacks gpu.nvidia.com/type" in failing


def test_the_effect_needs_no_script(ada: Client, fleet: Fleet) -> None:
    html = page(ada.post(EDIT, asked(expression=['device.driver == "gpu.amd.com"'], effect="1")))
    assert "3 → <strong>2</strong>" in html
    assert "Claims that wait" in html


@pytest.mark.parametrize(
    "typed",
    [
        {},
        {"cluster": "nowhere"},
        {"cluster": "berlin\x00", "class": "\x00", "round": "9" * 30},
        {"cluster": "berlin", "mode": "yaml", "text": "]"},
        {"cluster": "berlin", "config": "]", "expression": ["device."]},
        {"cluster": "berlin", "mode": "odd", "expression": ["x" * 20_000]},
    ],
)
def test_an_effect_that_cannot_be_told_says_why(ada: Client, fleet: Fleet, typed: dict[str, Any]) -> None:
    page(ada.post(EFFECT, typed))


# --- import -----------------------------------------------------------------------------------------


def test_documents_are_read_told_and_handed_to_the_editor(ada: Client, fleet: Fleet) -> None:
    known = TEXT.replace("name: big", "name: gpu.nvidia.com").replace("v1beta2", "v1")
    response = ada.post(IMPORT, {"cluster": "berlin", "text": f"{TEXT}---\n{known}"})
    html = page(response)
    assert "resource.k8s.io/v1beta2 is read as resource.k8s.io/v1" in html
    new, old = response.context["rows"]
    assert (new.current, new.effect.after) == (None, 2)
    assert (old.effect.before, old.effect.after) == (3, 2)
    opened = ada.post(
        EDIT, {"mode": "yaml", "switch": "form", "text": old.text, "cluster": "berlin", **old.hidden}
    )
    assert opened.context["form"].expressions == ["device.driver == 'gpu.amd.com'"]
    assert opened.context["form"].initial["seen_version"] == "7"


def test_a_file_is_read_as_a_text_is(ada: Client, fleet: Fleet) -> None:
    upload = SimpleUploadedFile("classes.yaml", TEXT.encode())
    assert len(ada.post(IMPORT, {"cluster": "berlin", "file": upload}).context["rows"]) == 1
    for content, said in ((b"\xff\xfe", "not text"), (b"x" * 300_000, "too large"), (b"a: 1", "Line 1,")):
        html = page(ada.post(IMPORT, {"cluster": "berlin", "file": SimpleUploadedFile("x", content)}), 422)
        assert said in html
    assert "Paste the YAML" in page(ada.post(IMPORT, {"cluster": "berlin"}), 422)


@pytest.mark.parametrize("mode", ["form", "yaml"])
def test_what_is_typed_is_proposed_either_way(ada: Client, fleet: Fleet, mode: str) -> None:
    action = "/propose-class/?class=gpu.nvidia.com"
    assert f'formaction="{action}"' in page(ada.get(EDIT))
    text = TEXT.replace("name: big", "name: gpu.nvidia.com")
    typed = {"expression": ["device.driver == 'gpu.amd.com'"], "text": text, "mode": mode}
    html = page(ada.post(action, {**typed, "cluster": "berlin", "from_editor": "1"}))
    assert "device.driver == &#x27;gpu.amd.com&#x27;" in html
