"""How states look: one tone and one icon per state name, the same on every page.

Keyed by the states' stored names (devices, requests, clusters, streams …), since a template has only those.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Appearance:
    # good, busy, wait, bad, off or plain: a CSS class of ours each.
    tone: str
    icon: str


_PLAIN = Appearance("plain", "point")

_APPEARANCES = {
    # Devices.
    "free": Appearance("good", "circle-check"),
    "held": Appearance("busy", "lock"),
    "partly": Appearance("busy", "circle-half-2"),
    "unavailable": Appearance("off", "ban"),
    "unknown": Appearance("off", "help-circle"),
    "gone": Appearance("off", "circle-dashed-x"),
    # Requests.
    "waiting-for-approval": Appearance("wait", "user-question"),
    "submitted": Appearance("wait", "send"),
    "approved": Appearance("wait", "user-check"),
    "rejected": Appearance("bad", "user-x"),
    "creating": Appearance("wait", "loader-2"),
    "failed": Appearance("bad", "alert-triangle"),
    "cancelled": Appearance("off", "circle-x"),
    "waiting-for-pod": Appearance("wait", "hourglass-empty"),
    "waiting-for-device": Appearance("wait", "hourglass-high"),
    "allocated": Appearance("good", "circle-check"),
    "in-use": Appearance("busy", "player-play"),
    "ending": Appearance("wait", "player-stop"),
    "ended": Appearance("off", "circle-dashed-check"),
    # Bookings (those that wait, are cancelled or refused look like requests and clusters).
    "booked": Appearance("good", "calendar-check"),
    "started": Appearance("busy", "player-play"),
    "missed": Appearance("bad", "calendar-x"),
    # Changes of requests.
    "waiting": Appearance("wait", "hourglass-empty"),
    "offered": Appearance("wait", "user-question"),
    "applied": Appearance("good", "circle-check"),
    "withdrawn": Appearance("off", "circle-x"),
    # Proposals for device classes, and what became of them on a cluster.
    "applying": Appearance("wait", "loader-2"),
    "partly-applied": Appearance("bad", "alert-triangle"),
    "outdated": Appearance("bad", "clock-x"),
    "rehearsed": Appearance("wait", "checks"),
    "writing": Appearance("wait", "send"),
    # Clusters and their streams.
    "new": Appearance("wait", "sparkles"),
    "synced": Appearance("good", "circle-check"),
    "syncing": Appearance("wait", "refresh"),
    "unreachable": Appearance("bad", "plug-connected-x"),
    "refused": Appearance("bad", "lock-x"),
    "misconfigured": Appearance("bad", "file-alert"),
    "disabled": Appearance("off", "player-pause"),
    "listing": Appearance("wait", "refresh"),
    "watching": Appearance("good", "eye"),
    "not-permitted": Appearance("bad", "lock-x"),
    "not-served": Appearance("off", "circle-off"),
    # Pods, and what kubelets say of their devices, as Kubernetes writes it.
    "Pending": Appearance("wait", "hourglass-empty"),
    "Running": Appearance("busy", "player-play"),
    "Succeeded": Appearance("good", "circle-check"),
    "Failed": Appearance("bad", "alert-triangle"),
    "Healthy": Appearance("good", "heartbeat"),
    "Unhealthy": Appearance("bad", "alert-triangle"),
    "Unknown": Appearance("off", "help-circle"),
    # ResourceQuotas that the desk writes.
    "due": Appearance("wait", "loader-2"),
    "written": Appearance("good", "circle-check"),
    "name-taken": Appearance("bad", "ban"),
    # What nodes report of CDI.
    "in-order": Appearance("good", "circle-check"),
    "drift": Appearance("bad", "alert-triangle"),
    # Maintenance and drains.
    "planned": Appearance("wait", "calendar-event"),
    "maintenance": Appearance("busy", "tool"),
    "asked": Appearance("wait", "send"),
    "closed": Appearance("wait", "ban"),
    "evicting": Appearance("bad", "user-minus"),
    "empty": Appearance("good", "circle-check"),
    # Nodes, pools, tokens, people.
    "ready": Appearance("good", "circle-check"),
    "not-ready": Appearance("bad", "alert-triangle"),
    "cordoned": Appearance("off", "ban"),
    "complete": Appearance("good", "circle-check"),
    "incomplete": Appearance("bad", "puzzle"),
    "invalid": Appearance("bad", "alert-triangle"),
    "gated": Appearance("off", "flag-off"),
    # Findings, diagnosis tasks, platform contracts.
    "bad": Appearance("bad", "alert-triangle"),
    "warning": Appearance("wait", "alert-circle"),
    "info": Appearance("plain", "info-circle"),
    "acknowledged": Appearance("busy", "eye-check"),
    "snoozed": Appearance("off", "zzz"),
    "resolved": Appearance("good", "circle-check"),
    "open": Appearance("wait", "circle-dashed"),
    "in-work": Appearance("busy", "tool"),
    "done": Appearance("good", "circle-check"),
    "met": Appearance("good", "circle-check"),
    "broken": Appearance("bad", "alert-triangle"),
    "not-observed": Appearance("off", "help-circle"),
    "not-expected": Appearance("plain", "minus"),
    "active": Appearance("good", "circle-check"),
    "expired": Appearance("off", "clock-x"),
    "revoked": Appearance("off", "ban"),
}


def appearance(state: str) -> Appearance:
    """The look of a state; a neutral one for names that nobody entered here."""
    return _APPEARANCES.get(state, _PLAIN)
