"""What is installed is what was locked: every package by version and hash, from wherever it comes."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from portal.env import BASE_DIR

LOCKS = sorted((BASE_DIR / "requirements").glob("*.txt"))
ADDRESS = re.compile(r"https?://|--(?:extra-)?index-url|--find-links|--trusted-host|\bfile:|\s@\s")


@pytest.fixture(params=LOCKS, ids=[path.stem for path in LOCKS])
def lock(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def pinned(lock: Path) -> dict[str, str]:
    """What stands behind each pinned package, on all its lines."""
    text = re.sub(r"#.*", "", lock.read_text()).replace("\\\n", " ")
    return {line.split()[0]: line for line in text.splitlines() if line.strip()}


def test_every_package_is_pinned_with_hashes(lock: Path) -> None:
    found = pinned(lock)
    assert len(found) > 50
    for name, line in found.items():
        assert re.fullmatch(r"[a-z0-9.-]+(?:\[[a-z0-9,-]+\])?==[^=\s]+", name), name
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", line), name


def test_a_lock_names_no_place_where_packages_come_from(lock: Path) -> None:
    assert ADDRESS.findall("\n".join(pinned(lock).values())) == []


def test_locks_agree_with_each_other() -> None:
    versions: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name in pinned(lock):
            versions.setdefault(name.partition("==")[0], set()).add(name)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_front_end_packages_have_an_integrity_and_no_address() -> None:
    packages = json.loads((BASE_DIR / "package-lock.json").read_text())["packages"]
    assert len(packages) > 1
    for name, package in packages.items():
        if name:
            assert package["integrity"].startswith("sha512-"), name
            assert "resolved" not in package, name


@pytest.mark.parametrize("failing", ["uv", "npm", ""])
def test_an_audit_fails_where_either_service_fails(failing: str, tmp_path: Path) -> None:
    """`make audit` itself, with programs in the place of the two that ask the advisory services."""
    asked = tmp_path / "asked"
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name, folder in (("uv", tmp_path / ".venv" / "bin"), ("npm", tmp_path / "bin")):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >>{asked}\nexit {int(name == failing)}\n')
        program.chmod(0o755)
    # As if all that it needs were installed.
    installed = ("--old-file=.venv/.dev", "--old-file=.venv/.base")
    done = subprocess.run(
        ["make", "--file", str(BASE_DIR / "Makefile"), "audit", *installed],
        cwd=tmp_path, env={"PATH": f"{tmp_path / 'bin'}:/usr/local/bin:/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode == 0) is (failing == ""), done.stdout + done.stderr
    said = asked.read_text()
    assert "requirements/tracing.txt" in said
    assert "deploy/podresources-collector/requirements.txt" in said
    assert ("npm audit" in said) is (failing != "uv")
