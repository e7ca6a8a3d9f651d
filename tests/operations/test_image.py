"""The Dockerfile, without a builder of images: its steps are run in a directory, and what they leave starts.

That shows that the files which are copied are enough, that the commands are right, and that the desk writes
to nothing but its data. It does not show the base image.
"""

import json
import os
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from portal.env import BASE_DIR
from portal.stack import free_port
from tests.system.desk import until

pytestmark = pytest.mark.nodatabase


@dataclass
class Stage:
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        return [rest for instruction, rest in self.steps if instruction == word]


def stages() -> list[Stage]:
    """The stages of the Dockerfile, with lines joined and comments left out."""
    text = "\n".join(
        line
        for line in (BASE_DIR / "Dockerfile").read_text().splitlines()
        if not line.lstrip().startswith("#")
    )
    found: list[Stage] = []
    for line in text.replace("\\\n", " ").splitlines():
        word, _space, rest = line.strip().partition(" ")
        if word == "FROM":
            found.append(Stage())
        if word and found:
            found[-1].steps.append((word, " ".join(rest.split())))
    return found


def copied() -> list[tuple[list[str], str]]:
    """Sources and target of every COPY out of the checkout."""
    build, _run = stages()
    parts = [line.split() for line in build.all("COPY")]
    return [(part[:-1], part[-1]) for part in parts]


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    permitted = {
        line[1:] for line in (BASE_DIR / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    sources = {source for several, _target in copied() for source in several}
    assert sources == permitted
    assert all((BASE_DIR / source).exists() for source in sources)


def test_the_image_runs_as_nobody_in_particular_and_is_asked_for_its_health() -> None:
    _build, run = stages()
    assert run.all("USER") == ["10001:10001"]
    (health,) = run.all("HEALTHCHECK")
    assert "/healthz" in health
    assert [line for line in run.all("COPY") if "--chown" in line] == []


def test_every_python_file_of_the_rooms_is_in_the_image() -> None:
    rooms = {path.parent.name for path in BASE_DIR.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert rooms <= {source for several, _target in copied() for source in several}


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "claimdesk"
    root.mkdir()
    build, _run = stages()
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.mo")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CLAIMDESK_", "DJANGO_"))}
    for word, rest in build.steps:
        if word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                here, there = BASE_DIR / source, root / target
                if here.is_dir():
                    shutil.copytree(here, there, ignore=ignored)
                else:
                    there = there / here.name if target.endswith("/") else there
                    there.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(here, there)
        elif word == "RUN" and "apt-get" not in rest:
            command = rest.replace("/tmp/data", str(tmp_path / "made-on-the-way"))
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=root,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    yield root
    shutil.rmtree(root)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_the_build_leaves_migrates_starts_and_answers(built: Path, tmp_path: Path) -> None:
    _build, run = stages()
    port, data = free_port(), tmp_path / "data"
    data.mkdir()
    before = contents(built)
    environment = {
        "PATH": f"{built}/.venv/bin:/usr/bin:/bin",
        "CLAIMDESK_DATA_DIR": str(data),
        "CLAIMDESK_SECRET_KEY": "x" * 50,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    migrate = ["python", "manage.py", "migrate", "--noinput", "--verbosity", "0"]
    subprocess.run(migrate, cwd=built, env=environment, check=True)
    (command,) = run.all("CMD")
    words = [str(port) if word == "8000" else word for word in json.loads(command)]
    words = ["127.0.0.1" if word == "0.0.0.0" else word for word in words]
    with (tmp_path / "said").open("wb") as said:
        server = subprocess.Popen(words, cwd=built, env=environment, stdout=said, stderr=said)
    try:
        (health,) = run.all("HEALTHCHECK")
        check = json.loads(health.partition("CMD ")[2])
        check = [word.replace("8000", str(port)) for word in check]

        def healthy() -> bool:
            assert server.poll() is None, (tmp_path / "said").read_text()
            asked = subprocess.run(check, cwd=built, env=environment, capture_output=True, check=False)
            return asked.returncode == 0

        until(healthy, f"an answer to {shlex.join(check)}")
        check_a_page_and_its_style(port)
    finally:
        server.terminate()
        server.wait(30)
    assert contents(built) == before


def check_a_page_and_its_style(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/accounts/login/", timeout=10) as answer:
        page = answer.read().decode()
    assert "Sign in" in page
    style = page.partition('href="/static/')[2].partition('"')[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/static/{style}", timeout=10) as answer:
        assert answer.status == 200


def contents(root: Path) -> dict[str, float]:
    """Every file with the time of its last change."""
    return {str(path): path.stat().st_mtime for path in root.rglob("*") if path.is_file()}


def test_the_linter_of_dockerfiles_finds_nothing() -> None:
    done = subprocess.run(
        [str(BASE_DIR / ".venv" / "bin" / "hadolint"), "Dockerfile"],
        cwd=BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
