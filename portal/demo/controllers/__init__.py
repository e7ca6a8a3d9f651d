"""The controllers of the embedded cluster: what makes Pods, claims and nodes move."""

from portal.demo.store import Store
from portal.dra.features import Features


async def run(store: Store, *, features: Features | None = None, kubelet: bool = True) -> None:
    """Run all controllers until cancelled. All state is in the store, so that they may stop at any moment.

    ``features`` are the gates that are on (default: those of Kubernetes 1.36). Without ``kubelet`` the cluster is
    a bare control plane: Pods are placed but never start, and nodes are as ready as somebody says they are.
    """
    raise NotImplementedError
