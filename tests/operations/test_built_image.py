"""The image as a builder makes it: it is built, and what is in it starts, answers and writes nothing.

Where ``buildah`` is installed and the tests run as root (it needs no daemon, but namespaces of its own). The
base is the one that the Dockerfile names; where its registry cannot be reached, Debian's own Python on what
``debootstrap`` installs. What the machine knows about where packages come from (pip, npm, certificates, APT)
is lent to the build and is not in the image.
"""

import contextlib
import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.env import BASE_DIR
from portal.stack import free_port
from tests.operations.test_image import check_a_page_and_its_style, stages
from tests.system.desk import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.nodatabase,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        shutil.which("buildah") is None or os.geteuid() != 0, reason="needs buildah, and root"
    ),
]

IMAGE = "localhost/claimdesk:tried"
UPSTREAM = "docker.io/library/python:3.13-slim-bookworm"
OWN_BASE = "docker.io/library/python:debian-slim-bookworm"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


class Builder:
    """buildah with a store of its own, of which nothing is left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = ["--root", str(directory / "store"), "--runroot", str(directory / "run")]

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            ["buildah", *self.store, "--storage-driver", "vfs", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (
            f"buildah {' '.join(words)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
        return done.stdout.strip()

    def base(self) -> str:
        """The build argument PYTHON of a base that is in the store."""
        pull = ["buildah", *self.store, "--storage-driver", "vfs", "pull", "--quiet", UPSTREAM]
        with contextlib.suppress(subprocess.TimeoutExpired):
            if subprocess.run(pull, capture_output=True, check=False, timeout=300).returncode == 0:
                return "3.13"
        if shutil.which("debootstrap") is None:
            pytest.skip("neither the registry of the base image nor debootstrap is at hand")
        root = self.directory / "debian"
        wanted = "--include=python3,python3-venv,ca-certificates"
        made = ["debootstrap", "--variant=minbase", wanted, "bookworm", str(root)]
        subprocess.run(made, check=True, capture_output=True)
        (root / "usr/bin/python").symlink_to("python3")
        container = self("from", "scratch")
        self("add", "--quiet", container, str(root), "/")
        self("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", container)
        self("commit", "--quiet", "--rm", container, OWN_BASE)
        shutil.rmtree(root)
        return "debian"

    def lent(self) -> list[str]:
        """What the machine knows about where packages come from, as mounts of the build."""
        npm = self.directory / "npmrc"
        own = Path.home() / ".npmrc"
        npm.write_text((own.read_text() if own.exists() else "") + f"\ncafile={CERTIFICATES}\n")
        mounts = {path: path for path in ("/etc/pip.conf", "/etc/resolv.conf", "/etc/hosts")}
        mounts |= {str(CERTIFICATES): str(CERTIFICATES), "/etc/apt/apt.conf.d": "/etc/apt/apt.conf.d"}
        mounts[str(npm)] = "/root/.npmrc"
        there = {here: target for here, target in mounts.items() if Path(here).exists()}
        return [word for here, target in there.items() for word in ("--volume", f"{here}:{target}:ro")]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of the built image's file system."""
    build = Builder(tmp_path_factory.mktemp("image"))
    flags = ["--isolation", "chroot", "--network", "host", "--format", "docker", "--pull-never"]
    python = build.base()
    build("bud", *flags, "--build-arg", f"PYTHON={python}", *build.lent(), "--tag", IMAGE, str(BASE_DIR))
    told = json.loads(build("inspect", "--type", "image", IMAGE))["Docker"]["config"]
    assert told["User"] == "10001:10001"
    assert told["Healthcheck"]["Test"][0] == "CMD"
    container = build("from", "--pull-never", IMAGE)
    yield Path(build("mount", container).split()[-1])
    build("umount", container)
    build("rm", container)
    shutil.rmtree(build.directory)


# In namespaces of its own, so that no mount is left behind, whatever ends it: the root read-only, as the
# manifests have it, and room in /data and /tmp only.
READ_ONLY = """
set -e
cd "$1"
mount --bind . . && cd "$1" && mount -o remount,bind,ro .
mount -t tmpfs -o mode=1777 none tmp
mount -t tmpfs -o uid=10001,gid=10001,mode=0700 none data
mount -t tmpfs none dev
mknod -m 666 dev/null c 1 3; mknod -m 666 dev/urandom c 1 9; mkdir -m 1777 dev/shm
shift
exec chroot --userspec=10001:10001 . /usr/bin/env --chdir=/claimdesk -i "$@"
"""


def inside(image: Path, *words: str) -> list[str]:
    settings = [
        "PATH=/claimdesk/.venv/bin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
        "CLAIMDESK_DATA_DIR=/data",
        f"CLAIMDESK_SECRET_KEY={'x' * 50}",
    ]
    return ["unshare", "--mount", "bash", "-c", READ_ONLY, "bash", str(image), *settings, *words]


def test_nobody_in_it_can_write_but_to_its_data(image: Path) -> None:
    shell = (
        "id -u; for each in /claimdesk /etc /usr/bin /data /tmp; do touch $each/try 2>&- && echo $each; done"
    )
    done = subprocess.run(inside(image, "sh", "-c", shell), capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["10001", "/data", "/tmp"], done.stderr


def test_neither_compiler_nor_what_was_lent_is_in_it(image: Path) -> None:
    present = [name for name in ("gcc", "make", "node", "npm") if (image / "usr/bin" / name).exists()]
    assert present == []
    left = image / "root/.npmrc"
    # The place of a mount may be left, as an empty file.
    assert not left.exists() or left.read_bytes() == b""
    assert [
        path.name for path in (image / "claimdesk").iterdir() if path.name in ("tests", "var", ".git")
    ] == []
    assert list((image / "claimdesk/.venv/bin").glob("pip*")) == []


def test_it_migrates_starts_and_answers(image: Path, tmp_path: Path) -> None:
    port = free_port()
    _build, run = stages()
    (command,) = run.all("CMD")
    words = [{"8000": str(port), "0.0.0.0": "127.0.0.1"}.get(word, word) for word in json.loads(command)]
    shell = f"python manage.py migrate --noinput --verbosity 0 && exec {' '.join(words)}"
    said = tmp_path / "said"
    with said.open("wb") as log:
        server = subprocess.Popen(inside(image, "sh", "-c", shell), stdout=log, stderr=log)
    try:

        def healthy() -> bool:
            assert server.poll() is None, said.read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=4) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        until(healthy, "an answer to /healthz", seconds=180)
        check_a_page_and_its_style(port)
    finally:
        server.terminate()
        server.wait(30)
