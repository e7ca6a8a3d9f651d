"""The cluster that the contract is tried on: an embedded one, or any real one with ``--kubeconfig PATH``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.kube.client import Client
from portal.kube.config import Credentials
from tests.contract.kubelet import FakeKubelet
from tests.contract.room import Room
from tests.embedded import EmbeddedCluster

# A short memory, so that "too old" can be reached with few writes; no kubelet, as on a bare control plane.
EMBEDDED_OPTIONS = ("--no-kubelet", "--history", "400", "--bookmark-seconds", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        default=None,
        metavar="PATH",
        help="run the contract tests against the cluster of this kubeconfig's current context",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.contract)
            # A real cluster takes its time; the deadlines of single steps are in the room.
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of the cluster under test; its current context may do everything."""
    given = request.config.getoption("--kubeconfig", default=None)
    if given:
        yield Path(given)
        return
    cluster = EmbeddedCluster(tmp_path_factory.mktemp("contract"), options=EMBEDDED_OPTIONS).start()
    yield cluster.kubeconfig
    cluster.stop()


@pytest.fixture(scope="session")
def is_real(request: pytest.FixtureRequest) -> bool:
    """Whether the cluster under test is not our own."""
    return bool(request.config.getoption("--kubeconfig", default=None))


@pytest.fixture(scope="session")
def client(kubeconfig: Path) -> Iterator[Client]:
    """An administrator's client."""
    with Client(Credentials.from_kubeconfig(kubeconfig), timeout=30.0) as opened:
        yield opened


@pytest.fixture(scope="session")
def kubelet(kubeconfig: Path) -> Iterator[FakeKubelet]:
    """One kubelet for the nodes of all tests."""
    with Client(Credentials.from_kubeconfig(kubeconfig), timeout=30.0) as own:
        running = FakeKubelet(own).start()
        yield running
        running.stop()


@pytest.fixture(scope="session")
def left_rooms(client: Client) -> Iterator[list[Room]]:
    """Rooms whose tests are over. At the end all of them have to be gone."""
    rooms: list[Room] = []
    yield rooms
    for left in rooms:
        left.wait_for(left.is_gone, f"namespace {left.namespace} gone", seconds=90)


@pytest.fixture
def room(client: Client, kubelet: FakeKubelet, left_rooms: list[Room]) -> Iterator[Room]:
    """A fresh namespace and a driver name of its own; what a test makes in it is removed, come what may."""
    yield from _opened(Room(client, kubelet), left_rooms)


@pytest.fixture(scope="module")
def shared_room(client: Client, kubelet: FakeKubelet, left_rooms: list[Room]) -> Iterator[Room]:
    """One room for all tests of a module that only try what is accepted."""
    yield from _opened(Room(client, kubelet), left_rooms)


def _opened(room: Room, left_rooms: list[Room]) -> Iterator[Room]:
    try:
        yield room.open()
    finally:
        left_rooms.append(room)
        room.close()
