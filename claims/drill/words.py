"""Drills in words: what each question is and expects, what was observed, and why it came out so."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

# Question, what the drill does, what it expects: by step.
QUESTIONS: Mapping[str, tuple[StrOrPromise, StrOrPromise, StrOrPromise]] = {
    "claim-created": (
        gettext_lazy("When is a claim created?"),
        gettext_lazy("Makes a template and a claim, waits, then makes a Pod that uses the template."),
        gettext_lazy(
            "The template makes no claim by itself; the Pod gets one of its own, after it was made."
        ),
    ),
    "devices-chosen": (
        gettext_lazy("When are devices chosen?"),
        gettext_lazy("Makes a claim, waits, then makes a Pod that names it."),
        gettext_lazy("A claim alone holds nothing; its device is chosen when the Pod is scheduled."),
    ),
    "several-pods": (
        gettext_lazy("Can several Pods use one claim?"),
        gettext_lazy("Makes two Pods that name the same claim."),
        gettext_lazy("Both run, on the same node and with the same device, and both reserve the claim."),
    ),
    "pod-deleted": (
        gettext_lazy("What happens when a Pod is deleted?"),
        gettext_lazy("Deletes one of two Pods on a claim, then the other."),
        gettext_lazy("The claim keeps its device for the second Pod, and gives it back after the last."),
    ),
    "pod-failed": (
        gettext_lazy("What happens when a Pod fails?"),
        gettext_lazy("Makes a Pod that fails after some seconds, and leaves it there."),
        gettext_lazy("A failed Pod keeps no device: the claim gives it back and lives on."),
    ),
    "pod-recreated": (
        gettext_lazy("What happens when a Pod on a claim is made again?"),
        gettext_lazy("Deletes the only Pod of a claim, and makes it again under the same name."),
        gettext_lazy("The claim is the same; a device is chosen anew, and may be another one."),
    ),
    "template-again": (
        gettext_lazy("What happens when a Pod from a template is made again?"),
        gettext_lazy("Deletes a Pod that got its claim from a template, and makes it again."),
        gettext_lazy("Its claim goes with the Pod, and the new Pod gets another claim."),
    ),
    "freed": (
        gettext_lazy("When is a device free again after deletion?"),
        gettext_lazy("Deletes a claim while its Pod runs, then the Pod."),
        gettext_lazy("The claim waits for its Pod; then it goes, and nobody holds the device any more."),
    ),
    "driver-restart": (
        gettext_lazy("What happens when a driver restarts?"),
        gettext_lazy("Lets a Pod run with a device while an operator restarts the driver, then adds a Pod."),
        gettext_lazy("The Pod and its device stay; the driver publishes again and serves the further Pod."),
    ),
    "node-gone": (
        gettext_lazy("What happens when a node goes away?"),
        gettext_lazy("Lets a Pod run with a device while an operator drains its node, then makes another."),
        gettext_lazy(
            "The device is given back; the next Pod goes elsewhere, or waits until the node is back."
        ),
    ),
    "restored": (
        gettext_lazy("Is the state consistent after a restore from a backup?"),
        gettext_lazy("Asks for a backup, changes something, asks for the restore, and compares all claims."),
        gettext_lazy("Claims, Pods and devices fit together again, and the claim of before has its device."),
    ),
}
WHY: Mapping[str, StrOrPromise] = {
    "no-room": gettext_lazy("Only the last free device was left, which the drill does not take."),
    "not-made": gettext_lazy("What the step needs could not be made in time."),
    "no-claim": gettext_lazy("No claim was made for the Pod in time."),
    "never-allocated": gettext_lazy("No device was chosen in time."),
    "pod-never-started": gettext_lazy("The Pod never started: no kubelet ran it in time."),
    "pod-never-gone": gettext_lazy("The deleted Pod did not go in time."),
    "pod-never-failed": gettext_lazy("The Pod did not fail in time."),
    "never-released": gettext_lazy("The device was not given back in time."),
    "not-kept": gettext_lazy("The second Pod did not keep the claim's device."),
    "not-shared": gettext_lazy("The Pods do not share one device."),
    "not-protected": gettext_lazy("The claim was taken away from a Pod that runs."),
    "claim-stays": gettext_lazy("The claim did not go in time."),
    "no-slices": gettext_lazy("The driver's slices were not found."),
    "driver-not-back": gettext_lazy("The driver did not publish its devices again in time."),
    "pod-stays": gettext_lazy("The Pod did not leave the node in time."),
    "node-not-back": gettext_lazy("The node did not take Pods again in time."),
    "nothing-said": gettext_lazy("The next Pod got no node, and the scheduler did not say why."),
    "not-consistent": gettext_lazy("Claims, Pods and devices did not fit together in time."),
    "pod-vanished": gettext_lazy("A Pod of the drill was not there any more."),
    "pod-succeeded": gettext_lazy("The Pod ended by itself instead of failing: look at its command."),
    "claim-without-pod": gettext_lazy("A claim was made before any Pod needed it."),
    "allocated-without-pod": gettext_lazy("A device was chosen before any Pod named the claim."),
    "claim-vanished": gettext_lazy("The claim went with its Pod."),
    "another-claim": gettext_lazy("The claim is another one than before."),
    "same-claim": gettext_lazy("The new Pod got the claim of the old one."),
    "pod-disturbed": gettext_lazy("The Pod did not go on running."),
    "device-changed": gettext_lazy("The claim has another device than before."),
    "on-the-same-node": gettext_lazy("The next Pod was placed on the node that should be away."),
    "refused": gettext_lazy("The cluster refused what the step does."),
    "by-person": gettext_lazy("Somebody skipped it."),
    "nobody-answered": gettext_lazy("Nobody did what was asked for in time."),
    "called-off": gettext_lazy("The drill was called off."),
    "unknown-step": gettext_lazy("This version of the desk does not know the question."),
}
OBSERVED: Mapping[str, StrOrPromise] = {
    "claim-made": gettext_lazy("Claim %(claim)s was made."),
    "template-made": gettext_lazy("Template %(template)s was made."),
    "pod-made": gettext_lazy("Pod %(pod)s was made."),
    "no-claim-yet": gettext_lazy("No claim came of the template alone."),
    "nothing-chosen": gettext_lazy("The claim alone held nothing."),
    "claim-of-pod": gettext_lazy("Claim %(claim)s was made for the Pod."),
    "allocated": gettext_lazy("%(claim)s holds %(device)s."),
    "scheduled": gettext_lazy("%(pod)s was scheduled to %(node)s."),
    "unschedulable": gettext_lazy("%(pod)s has no node: %(message)s"),
    "pod-runs": gettext_lazy("%(pod)s runs on %(node)s."),
    "pod-ends": gettext_lazy("%(pod)s is being deleted."),
    "pod-gone": gettext_lazy("%(pod)s is gone."),
    "pod-failed": gettext_lazy("%(pod)s ended: %(reason)s."),
    "shared": gettext_lazy("%(pods)s Pods share %(device)s on %(node)s."),
    "kept": gettext_lazy("%(pod)s keeps %(device)s alone."),
    "released": gettext_lazy("%(claim)s holds nothing any more."),
    "free-after": gettext_lazy("The device was given back within %(seconds)s s."),
    "protected": gettext_lazy("%(claim)s is to be deleted, and waits for its Pod."),
    "claim-gone": gettext_lazy("The claim was gone within %(seconds)s s."),
    "device-free": gettext_lazy("Nobody holds %(device)s."),
    "taken-at-once": gettext_lazy("%(device)s was given back, and somebody else has it already."),
    "same-device": gettext_lazy("The same device was chosen again: %(device)s."),
    "another-device": gettext_lazy("Another device was chosen: %(device)s."),
    "slices": gettext_lazy("Published in: %(slices)s."),
    "slices-gone": gettext_lazy("The driver's slices were not there."),
    "slices-changed": gettext_lazy("Published anew in: %(slices)s."),
    "slices-same": gettext_lazy("The slices are as before; the API shows no trace of the restart."),
    "pod-undisturbed": gettext_lazy("%(pod)s ran on with its device."),
    "node-cordoned": gettext_lazy("%(node)s takes no Pods."),
    "node-not-ready": gettext_lazy("%(node)s is not ready."),
    "node-deleted": gettext_lazy("Node %(node)s is not there."),
    "node-back": gettext_lazy("%(node)s is ready and takes Pods."),
    "placed-elsewhere": gettext_lazy("The next Pod was placed on %(node)s."),
    "at-backup": gettext_lazy("At the time of the backup the claim held %(device)s."),
    "not-reachable": gettext_lazy("The control plane did not answer."),
    "later-pod-there": gettext_lazy("%(pod)s, made after the backup, is there."),
    "later-pod-gone": gettext_lazy("%(pod)s, made after the backup, is not there."),
    "consistent": gettext_lazy("%(claims)s claims and %(pods)s Pods fit together."),
    "problem-held-twice": gettext_lazy("%(what)s is held by several claims: %(claim)s."),
    "problem-for-nobody": gettext_lazy("%(claim)s is reserved for %(what)s, which is not there."),
    "problem-claim-missing": gettext_lazy("%(what)s runs on %(claim)s, which is not there."),
    "problem-holds-nothing": gettext_lazy("%(what)s runs on %(claim)s, which holds nothing."),
    "problem-not-reserved": gettext_lazy("%(what)s runs on %(claim)s, which is not reserved for it."),
    "problem-not-published": gettext_lazy("%(claim)s holds %(what)s, which no driver publishes."),
    "refused": gettext_lazy("The cluster refused: %(message)s"),
    "event": gettext_lazy("%(pod)s, %(reason)s: %(message)s"),
    "did": gettext_lazy("%(person)s: done."),
    "skipped": gettext_lazy("%(person)s skipped it."),
    "asked-restart-driver": gettext_lazy("Asked for the restart of the driver."),
    "asked-drain-node": gettext_lazy("Asked for the node to be drained."),
    "asked-return-node": gettext_lazy("Asked for the node to be brought back."),
    "asked-take-backup": gettext_lazy("Asked for a backup."),
    "asked-restore-backup": gettext_lazy("Asked for the restore of the backup."),
}
# What an operator is asked for, and with which command it is mostly done.
ASKS: Mapping[str, tuple[StrOrPromise, str]] = {
    "restart-driver": (
        gettext_lazy("Restart the DRA driver on the node %(node)s, and say so when it runs again."),
        "kubectl -n NAMESPACE delete pod --field-selector spec.nodeName=%(node)s -l app=DRIVER",
    ),
    "drain-node": (
        gettext_lazy("Drain the node %(node)s, or switch it off, and say so when that is done."),
        "kubectl drain %(node)s --ignore-daemonsets --delete-emptydir-data --force",
    ),
    "return-node": (
        gettext_lazy("Bring the node %(node)s back, and say so when it takes Pods again."),
        "kubectl uncordon %(node)s",
    ),
    "take-backup": (
        gettext_lazy("Take a backup of the control plane now, and say so when you have it."),
        "etcdctl snapshot save drill.db",
    ),
    "restore-backup": (
        gettext_lazy("Restore the control plane from that backup, and say so when it answers again."),
        "",
    ),
}


def question(code: str) -> dict[str, str]:
    """{"question", "does", "expects"} of a step."""
    told = QUESTIONS.get(code, (code, "", ""))
    return dict(zip(("question", "does", "expects"), map(str, told), strict=True))


def why(code: str) -> str:
    """Why a step came out as it did; "" without a reason."""
    return str(WHY.get(code, code)) if code else ""


def observed(entry: Mapping[str, Any]) -> str:
    """A line of evidence as a sentence."""
    template = OBSERVED.get(str(entry["code"]))
    if template is None:
        return str(entry["code"])
    try:
        return str(str(template) % entry["what"])
    except (KeyError, ValueError):
        return f"{template} {entry['what']}"


def ask(code: str, *, node: str) -> dict[str, str]:
    """{"words", "command"} of what an operator is asked for."""
    words, command = ASKS[code]
    told = {"node": node or _("of the Pod")}
    return {"words": str(words) % told, "command": command % {"node": node or "NODE"} if command else ""}
