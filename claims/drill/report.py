"""A drill as it is told: to pages, programs and files."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from claims.drill import words
from claims.drill.steps import BY_CODE
from claims.models import Drill, DrillStep


def steps_of(drill: Drill) -> list[dict[str, Any]]:
    """Every question with what was observed, in order; one query."""
    return [_step(step) for step in drill.steps.select_related("answered_by").order_by("position")]


def document(drill: Drill) -> dict[str, Any]:
    """The drill with all its evidence: for REST and the file."""
    return summary(drill) | {"steps": [_plain(told) for told in steps_of(drill)]}


def summary(drill: Drill) -> dict[str, Any]:
    """The drill itself."""
    return {
        "key": drill.key,
        "plan": drill.plan_id,
        "pool": drill.plan.name,
        "cluster": drill.cluster.name,
        "namespace": drill.namespace,
        "device_class": drill.device_class,
        "node_selector": drill.node_selector,
        "image": drill.image,
        "state": drill.state,
        "cancelled": drill.cancelled,
        "message": drill.message,
        "last_device": drill.last_device,
        "person": str(drill.person) if drill.person else None,
        "created_at": drill.created_at,
        "finished_at": drill.finished_at,
        "clean_at": drill.clean_at,
    }


def _step(step: DrillStep) -> dict[str, Any]:
    return {
        "step": step,
        **words.question(step.code),
        "why": words.why(step.why),
        "ask": _ask(step),
        "observed": [
            {**entry, "words": words.observed(entry), "moment": _moment(entry)} for entry in step.observed
        ],
    }


def _ask(step: DrillStep) -> Mapping[str, str] | None:
    script = BY_CODE.get(step.code)
    if script is None or step.state != DrillStep.State.ASKING:
        return None
    asked = script.parts[script.part(step.phase)].ask
    return words.ask(asked, node=str(step.facts.get("node") or _node(step))) if asked else None


def _node(step: DrillStep) -> str:
    """Where the first Pod of the step runs."""
    return next((str(e["what"].get("node", "")) for e in step.observed if e["code"] == "pod-runs"), "")


def _plain(told: dict[str, Any]) -> dict[str, Any]:
    step: DrillStep = told["step"]
    return {
        "code": step.code,
        "question": told["question"],
        "does": told["does"],
        "expects": told["expects"],
        "state": step.state,
        "verdict": step.verdict,
        "why": told["why"],
        "asks": told["ask"],
        "started_at": step.started_at,
        "asked_at": step.asked_at,
        "ended_at": step.ended_at,
        "answered_by": str(step.answered_by) if step.answered_by else None,
        "observed": [
            {name: entry[name] for name in ("at", "source", "code", "what", "words")}
            for entry in told["observed"]
        ],
    }


def _moment(entry: Mapping[str, Any]) -> datetime | None:
    try:
        return parse_datetime(str(entry["at"]))
    except ValueError:
        return None
