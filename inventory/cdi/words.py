"""Findings, problems and states of CDI in words."""

from collections.abc import Callable, Mapping

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django_stubs_ext import StrOrPromise

from inventory.cdi.comparison import BAD, DRIFT, IN_ORDER, INFO, UNKNOWN, WARNING, Finding, Verdict

Params = Mapping[str, str | int]

STATES: Mapping[str, StrOrPromise] = {
    IN_ORDER: gettext_lazy("in order"),
    DRIFT: gettext_lazy("does not fit"),
    UNKNOWN: gettext_lazy("unknown"),
}
SEVERITIES: Mapping[str, StrOrPromise] = {
    BAD: gettext_lazy("problem"),
    WARNING: gettext_lazy("warning"),
    INFO: gettext_lazy("note"),
}

_WHY: Mapping[str, StrOrPromise] = {
    "never-reported": gettext_lazy("no report yet"),
    "overdue": gettext_lazy("the report is overdue"),
    "not-in-step": gettext_lazy("the cluster is not in step, so nothing can be compared"),
    "incomplete": gettext_lazy("the report is not complete"),
    "runtime-unknown": gettext_lazy("whether the runtime reads CDI specs is not known"),
}

_FINDINGS: Mapping[str, Callable[[str, Params], str]] = {
    "runtime-off": lambda _s, _p: _("The container runtime does not read CDI specs: CDI is switched off."),
    "runtime-unknown": lambda _s, _p: _("Whether the container runtime reads CDI specs is not known."),
    "directory-not-read": lambda s, _p: (
        _("The runtime does not read %(path)s, yet there are spec files in it.") % {"path": s}
    ),
    "directory-unreadable": lambda s, _p: _("The directory %(path)s could not be read.") % {"path": s},
    "left-out": lambda _s, p: (
        ngettext(
            "%(count)s file was left out: the report would have been too large.",
            "%(count)s files were left out: the report would have been too large.",
            int(p["count"]),
        )
        % p
    ),
    "writable": lambda s, p: (
        _("%(path)s may be written by others than its owner (mode %(mode)s).") % {"path": s, **p}
    ),
    "owner": lambda s, p: _("%(path)s belongs to the unexpected user id %(uid)s.") % {"path": s, **p},
    "ignored-name": lambda s, _p: (
        _("Runtimes ignore %(path)s: the name of a spec ends in .json or .yaml.") % {"path": s}
    ),
    "unread": lambda s, p: _("%(path)s was not read: %(why)s.") % {"path": s, "why": _unread(str(p["why"]))},
    "invalid-spec": lambda s, p: (
        ngettext(
            "%(path)s is no valid spec (%(count)s error): the runtime does not take it.",
            "%(path)s is no valid spec (%(count)s errors): the runtime does not take it.",
            int(p["count"]),
        )
        % {"path": s, **p}
    ),
    "conflict": lambda s, p: (
        _("Several files of one directory name the device %(device)s, so it cannot be used: %(files)s.")
        % {"device": s, **p}
    ),
    "handler-missing": lambda _s, p: (
        _("The RuntimeClass %(class)s is meant for this node, whose runtime has no handler “%(handler)s”.")
        % p
    ),
    "device-gone": lambda s, p: (
        _("%(path)s names devices that %(driver)s does not publish (any more): %(devices)s.")
        % {"path": s, **p}
    ),
    "spec-stale": lambda s, p: (
        _("%(path)s was written before the devices appeared that it names: %(devices)s.") % {"path": s, **p}
    ),
    "spec-missing": lambda _s, p: (
        _("%(driver)s publishes devices that no valid spec names: %(devices)s.") % p
    ),
    "no-specs": lambda s, p: (
        ngettext(
            "%(driver)s publishes %(count)s device and never wrote a spec here: it may work without.",
            "%(driver)s publishes %(count)s devices and never wrote a spec here: it may work without.",
            int(p["count"]),
        )
        % {"driver": s, **p}
    ),
    "claim-gone": lambda s, _p: (
        _("%(path)s was left behind: its claim does not exist any more.") % {"path": s}
    ),
    "claim-elsewhere": lambda s, _p: (
        _("%(path)s was left behind: its claim is not allocated on this node.") % {"path": s}
    ),
    "claim-missing": lambda _s, p: (
        _("A running Pod uses the claim %(claim)s, but there is no spec of it by %(driver)s.") % p
    ),
}

_PROBLEMS: Mapping[str, StrOrPromise] = {
    "alias": gettext_lazy("line %(line)s: YAML aliases are not followed"),
    "clos": gettext_lazy("this cannot be the name of a resctrl group"),
    "device-name": gettext_lazy("“%(name)s” is no name of a device"),
    "device-twice": gettext_lazy("the device “%(name)s” is there twice"),
    "duplicate-key": gettext_lazy("the member “%(name)s” is there twice"),
    "empty-edits": gettext_lazy("the device would change nothing in a container"),
    "env": gettext_lazy("this is not of the form NAME=value"),
    "field-removed": gettext_lazy("this field is gone since version %(version)s"),
    "hook-name": gettext_lazy("there is no hook “%(name)s”"),
    "key": gettext_lazy("the name of a member is no text"),
    "kind": gettext_lazy("“%(kind)s” is not of the form vendor/class"),
    "missing": gettext_lazy("this field is required"),
    "more-problems": gettext_lazy("%(count)s more problems are not shown"),
    "needs-version": gettext_lazy("this needs version %(version)s, the file says %(stated)s"),
    "negative": gettext_lazy("this number may not be negative"),
    "net-device-twice": gettext_lazy("a network device is there twice"),
    "no-devices": gettext_lazy("there is no device"),
    "node-type": gettext_lazy("“%(type)s” is no type of a device node"),
    "not-an-object": gettext_lazy("the file holds no object"),
    "number": gettext_lazy("a number is not usable"),
    "permissions": gettext_lazy("“%(permissions)s” is not made of r, w and m"),
    "syntax": gettext_lazy("line %(line)s: neither JSON nor YAML (%(reason)s)"),
    "too-deep": gettext_lazy("it is nested deeper than %(limit)s levels"),
    "too-many-values": gettext_lazy("it has more than %(limit)s values"),
    "type": gettext_lazy("this has another type than expected (%(expected)s)"),
    "unknown-field": gettext_lazy("no version of CDI knows this field; strict runtimes refuse the file"),
    "version": gettext_lazy("“%(version)s” is no version of CDI that is known here"),
}

_UNREAD: Mapping[str, StrOrPromise] = {
    "binary": gettext_lazy("it is no text"),
    "denied": gettext_lazy("the collector may not read it"),
    "not-a-file": gettext_lazy("it is no regular file"),
    "not-sent": gettext_lazy("the report would have been too large"),
    "symlink": gettext_lazy("it is a link that leads out of the directory"),
    "too-large": gettext_lazy("it is too large"),
    "vanished": gettext_lazy("it vanished while it was read"),
}


def finding(found: Finding) -> str:
    """A finding as a sentence."""
    say = _FINDINGS.get(found.code)
    return say(found.subject, found.params) if say else found.code


def problem(found: Mapping[str, object]) -> str:
    """A problem of a spec, as `CdiSpecFile.problems` keeps it, without its path."""
    text = str(_PROBLEMS.get(str(found["code"]), found["code"]))
    params = found["params"]
    return text % params if isinstance(params, Mapping) and params else text


def why_unknown(verdict: Verdict) -> str:
    """Why a node's state is unknown; "" when it is known."""
    return str(_WHY.get(verdict.why, verdict.why))


def _unread(code: str) -> str:
    return str(_UNREAD.get(code, code))
