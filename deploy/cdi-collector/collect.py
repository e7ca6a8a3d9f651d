#!/usr/bin/env python3
"""Reports a node's CDI specs to Claimdesk: the spec files as they are, and the runtime's CDI setting.

Python's standard library only (3.9 or later), one file, nothing written, no call to the Kubernetes API. It
reads what it is pointed at below ``--root`` and follows no link out of a spec directory. A report is sent
when something changed and at least every ``--interval`` seconds; a report that cannot be delivered is tried
again, later and later.

    collect.py --portal https://desk.example.org --cluster berlin --node gpu-01 --token-file /token --once

Every option may come from the environment (``CDI_PORTAL`` for ``--portal``). Exit status: 0 sent, 1 not sent
(with ``--once``), 2 wrong options.
"""

from __future__ import annotations

import argparse
import errno
import glob
import hashlib
import json
import logging
import os
import random
import re
import signal
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone
from typing import Any, NoReturn
from urllib.parse import urlsplit

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None  # type: ignore[assignment] # only there

VERSION = "1"
FORMAT = 1
# What the portal takes in; a report is cut to it.
MAX_REPORT_BYTES = 1024 * 1024
MAX_FILE_BYTES = 256 * 1024
MAX_CONFIG_BYTES = 1024 * 1024
MAX_FILES = 1000
MAX_IMPORTS = 20
MAX_DIRECTORIES = 10
DEFAULT_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
TIMEOUT = 20
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
# ".yml" is reported too, so that the portal can say that runtimes ignore it.
SPEC_ENDINGS = (".json", ".yaml", ".yml")

# Where the containerd that the kubelet uses has its configuration, by distribution. Those that bring one come
# first: beside it a host may have another containerd (Docker's), which says nothing about Pods.
CONTAINERD_LAYOUTS = (
    ("/var/lib/rancher/k3s/agent/etc/containerd/config.toml",),
    ("/var/lib/rancher/rke2/agent/etc/containerd/config.toml",),
    ("/var/snap/microk8s/current/args/containerd.toml",),
    ("/etc/k0s/containerd.toml", "/run/k0s/containerd-cri.toml", "/etc/k0s/containerd.d/*.toml"),
    # Talos.
    ("/etc/cri/containerd.toml", "/etc/cri/conf.d/*.toml", "/etc/cri/conf.d/*.part"),
    ("/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml"),
)
CRIO_CONFIGS = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*")
RUNTIME_BINARIES = (
    *("usr/local/bin", "usr/bin", "usr/sbin", "var/lib/rancher/k3s/data/current/bin"),
    *("var/lib/rancher/rke2/bin", "var/lib/k0s/bin", "snap/microk8s/current/bin"),
)

log = logging.getLogger("cdi-collector")


# --- spec directories ----------------------------------------------------------------------------------


def inside(root: str, path: str) -> str:
    """`path` of the node as a path here."""
    return os.path.join(root, path.lstrip("/"))


def leads_out(root: str, path: str) -> bool:
    """Whether links on the way lead out of the root."""
    real, base = os.path.realpath(path), os.path.realpath(root)
    return real != base and not real.startswith(base.rstrip("/") + "/")


def read_directory(root: str, path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The directory's own facts, and its spec files in the order of their names."""
    here = inside(root, path)
    facts: dict[str, Any] = {"path": path, "state": "read", "uid": None, "gid": None, "mode": None}
    if leads_out(root, here):
        return {**facts, "state": "unreadable"}, []
    try:
        handle = os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return {**facts, "state": "missing"}, []
    except OSError as error:
        log.warning("%s: %s", path, error.strerror)
        return {**facts, "state": "unreadable"}, []
    try:
        status = os.fstat(handle)
        facts.update(uid=status.st_uid, gid=status.st_gid, mode=stat.S_IMODE(status.st_mode))
        names = sorted(name for name in os.listdir(handle) if name.lower().endswith(SPEC_ENDINGS))
        return facts, [file for name in names if (file := read_file(handle, path, name)) is not None]
    finally:
        os.close(handle)


def read_file(  # noqa: PLR0911 - one return per reason not to read
    directory: int, path: str, name: str
) -> dict[str, Any] | None:
    """One spec file: owner, mode, times, checksum, text. None when it vanished meanwhile."""
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")
    file: dict[str, Any] = {"directory": path, "name": shown, "sha256": "", "content": None, "unread": ""}
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    target = name
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=directory)
    file.update(describe(status))
    if "/" in target or target in {".", ".."}:
        return {**file, "unread": "symlink"}
    try:
        # Neither another link, nor waiting for somebody to write into a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(target, flags, dir_fd=directory)
    except OSError as error:
        reasons = {errno.ELOOP: "symlink", errno.EACCES: "denied", errno.EPERM: "denied"}
        reasons.update({errno.ENOENT: "vanished", errno.ENXIO: "not-a-file"})
        return {**file, "unread": reasons.get(error.errno or 0, "denied")}
    status = os.fstat(handle)
    file.update(describe(status))
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        return {**file, "unread": "not-a-file"}
    with os.fdopen(handle, "rb") as opened:
        raw = opened.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        return {**file, "unread": "too-large"}
    file.update(size=len(raw), sha256=hashlib.sha256(raw).hexdigest())
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return {**file, "unread": "binary"}
    return {**file, "content": text}


def describe(status: os.stat_result) -> dict[str, Any]:
    return {
        "uid": status.st_uid,
        "gid": status.st_gid,
        "mode": stat.S_IMODE(status.st_mode),
        "size": status.st_size,
        "modified_at": moment(status.st_mtime),
    }


def moment(seconds: float) -> str:
    # Times before 1970 or far ahead are nobody's; they must not keep the rest from being reported.
    seconds = min(max(seconds, 0), 4_000_000_000)
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()  # noqa: UP017 - Python 3.9


# --- the container runtime -----------------------------------------------------------------------------


def read_runtime(
    root: str, wanted: str | None, containerd: list[list[str]], crio: list[str], version: str
) -> dict[str, Any]:
    """Which runtime it is, its version, and its CDI setting; None or "" for what cannot be told."""
    found = {"containerd": read_first(root, containerd), "cri-o": read_configs(root, crio)}
    names = [name for name, (sources, _settings) in found.items() if sources]
    name = wanted or (names[0] if len(names) == 1 else "")
    if len(names) > 1 and not wanted:
        log.warning("Both containerd and CRI-O are configured: say which one runs with --runtime.")
    nothing: tuple[list[str], dict[str, Any]] = ([], {})
    sources, settings = found.get(name, nothing)
    return {
        "name": name,
        "version": version or runtime_version(root, name),
        "config_version": settings.get("version"),
        "enable_cdi": settings.get("enable_cdi"),
        "spec_dirs": settings.get("cdi_spec_dirs"),
        "handlers": sorted(settings["handlers"]) if sources else None,
        "sources": sources,
    }


def read_first(root: str, layouts: list[list[str]]) -> tuple[list[str], dict[str, Any]]:
    """The configuration of the first layout that there is; layouts are never mixed."""
    for patterns in layouts:
        sources, settings = read_configs(root, patterns)
        if sources:
            return sources, settings
    return [], {"handlers": set()}


def read_configs(root: str, patterns: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Configuration files in their order, the later over the earlier: their paths and the settings."""
    queue, sources = list(patterns), list[str]()
    settings: dict[str, Any] = {"handlers": set()}
    while queue and len(sources) < MAX_IMPORTS:
        pattern = queue.pop(0)
        for here in sorted(glob.glob(inside(root, pattern))):
            path = "/" + os.path.relpath(here, root)
            if path in sources or leads_out(root, here) or not os.path.isfile(here):
                continue
            try:
                with open(here, "rb") as opened:
                    text = opened.read(MAX_CONFIG_BYTES).decode("utf-8", "replace")
            except OSError as error:
                log.warning("%s: %s", path, error.strerror)
                continue
            sources.append(path)
            said = understand(text)
            settings["handlers"] |= said.pop("handlers")
            queue += [os.path.join(os.path.dirname(path), pattern) for pattern in said.pop("imports")]
            settings.update(said)
    return sources, settings


def understand(text: str) -> dict[str, Any]:
    """The few settings that matter, from TOML; from lines that look like them when it is no valid TOML."""
    said: dict[str, Any] = {"handlers": set(), "imports": []}
    try:
        document = tomllib.loads(text) if tomllib else None
    except (ValueError, RecursionError):
        document = None
    if document is None:
        return scan(text, said)
    said["imports"] = strings(document.get("imports")) or []
    if isinstance(document.get("version"), int):
        said["version"] = document["version"]
    tables: list[dict[str, Any]] = [document]
    while tables:
        table = tables.pop()
        for name, value in table.items():
            take(said, name, value)
            if isinstance(value, dict):
                tables.append(value)
                if name == "runtimes":
                    said["handlers"] |= {key for key, inner in value.items() if isinstance(inner, dict)}
    return said


def scan(text: str, said: dict[str, Any]) -> dict[str, Any]:
    lines = re.sub(r"(?m)(^|\s)#.*$", "", text)
    for name, value in re.findall(r"(?m)^\s*(enable_cdi|version)\s*=\s*(true|false|\d+)\s*$", lines):
        if name == "version":
            said["version"] = int(value) if value.isdigit() and len(value) < 4 else None
        else:
            take(said, name, value == "true")
    for name, value in re.findall(r"(?ms)^\s*(cdi_spec_dirs|imports)\s*=\s*\[([^\]]*)\]", lines):
        take(said, name, re.findall(r"[\"']([^\"']+)[\"']", value))
    said["handlers"] |= set(re.findall(r"(?m)^\s*\[[^\]\n]*\bruntimes\.[\"']?([\w-]+)[\"']?\s*\]", lines))
    return said


def take(said: dict[str, Any], name: str, value: Any) -> None:
    if name == "enable_cdi" and isinstance(value, bool):
        said[name] = value
    elif name in {"cdi_spec_dirs", "imports"} and (found := strings(value)) is not None:
        said[name] = [path for path in found if path.startswith("/") or name == "imports"]


def strings(value: Any) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def runtime_version(root: str, name: str) -> str:
    """From ``<binary> --version``, where it can be run; "" where not."""
    binary = {"containerd": "containerd", "cri-o": "crio"}.get(name)
    for directory in RUNTIME_BINARIES:
        path = os.path.join(root, directory, binary) if binary else ""
        if not path or leads_out(root, path) or not os.access(path, os.X_OK):
            continue
        try:
            run = subprocess.run([path, "--version"], capture_output=True, timeout=5, env={}, check=False)
        except (OSError, subprocess.SubprocessError):
            continue
        if found := re.search(r"\bv?(\d+\.\d+\.\d+[\w.+~-]*)", run.stdout.decode("utf-8", "replace")):
            return found[1][:80]
    return ""


# --- the report ----------------------------------------------------------------------------------------


def collect(options: argparse.Namespace) -> dict[str, Any]:
    """The report without the moment of its sending."""
    directories, files = [], list[dict[str, Any]]()
    runtime = read_runtime(
        options.root,
        options.runtime,
        options.containerd_config,
        options.crio_config,
        options.runtime_version,
    )
    # Where nobody says which to look at, those that the runtime looks at, too.
    told = [] if options.spec_dir else list(DEFAULT_SPEC_DIRS) + (runtime["spec_dirs"] or [])
    for path in list(dict.fromkeys(options.spec_dir or map(clean, told)))[:MAX_DIRECTORIES]:
        facts, found = read_directory(options.root, path)
        directories.append(facts)
        files += found
    return {
        "format": FORMAT,
        "collector": VERSION,
        "cluster": options.cluster,
        "node": options.node,
        "interval_seconds": options.interval,
        "directories": directories,
        "files": files[:MAX_FILES],
        "files_left_out": max(0, len(files) - MAX_FILES),
        "runtime": runtime,
    }


def clean(path: str) -> str:
    """A path in one way of writing it; /run is where /var/run leads."""
    path = "/" + os.path.normpath(path).lstrip("/")
    return "/var" + path if path == "/run/cdi" else path


def pack(report: dict[str, Any], now: float) -> bytes:
    """The body to send, never larger than MAX_REPORT_BYTES: the largest texts are left out first."""
    files = [dict(file) for file in report["files"]]
    report = {**report, "files": files, "sent_at": moment(now)}
    body = encode(report)
    while len(body) > MAX_REPORT_BYTES:
        sent = [file for file in files if file["content"] is not None]
        if sent:
            excess = len(body) - MAX_REPORT_BYTES
            for file in sorted(sent, key=lambda file: -len(file["content"])):
                # As long as it is in JSON.
                excess -= len(json.dumps(file["content"], ensure_ascii=False).encode())
                file.update(content=None, unread="not-sent")
                if excess <= 0:
                    break
        else:
            # Not even their names fit.
            report["files_left_out"] += len(files) - len(files) // 2
            files = report["files"] = files[: len(files) // 2]
        body = encode(report)
    return body


def encode(report: dict[str, Any]) -> bytes:
    return json.dumps(report, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


# --- sending -------------------------------------------------------------------------------------------


class NotSent(Exception):
    """The portal did not take the report. `wait` is what it asks for, in seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the portal that was named and nowhere else."""

    def redirect_request(self, *_arguments: Any) -> None:
        """None: the answer is an error like any other."""


def send(options: argparse.Namespace, body: bytes) -> None:
    """Raises NotSent with what the portal, or the way to it, said."""
    try:
        with open(options.token_file, encoding="ascii") as opened:
            token = opened.read(1000).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotSent(f"the token {options.token_file} cannot be read: {error}") from None
    request = urllib.request.Request(  # noqa: S310 - `parse` lets only https through, and http on loopback
        options.portal.rstrip("/") + "/api/v1/cdi/reports/",
        data=body,
        headers={
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "User-Agent": f"claimdesk-cdi-collector/{VERSION}",
        },
    )
    context = ssl.create_default_context(cafile=options.ca_file or None)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), NoRedirect)
    try:
        with opener.open(request, timeout=TIMEOUT):
            return
    except urllib.error.HTTPError as error:
        with error:
            raise NotSent(f"{error.code}: {explain(error)}", wait_of(error)) from None
    except (OSError, ValueError) as error:
        raise NotSent(str(getattr(error, "reason", error))) from None


def explain(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(10_000)).get("detail") or error.reason)
    except (OSError, ValueError, AttributeError):
        return error.reason


def wait_of(error: urllib.error.HTTPError) -> float | None:
    stated = error.headers.get("Retry-After", "")
    return min(float(stated), LONGEST_WAIT) if stated.isdigit() else None


def run_once(options: argparse.Namespace) -> int:
    """One report, tried a few times."""
    report, wait = collect(options), FIRST_WAIT
    for attempt in range(1, options.attempts + 1):
        try:
            send(options, pack(report, time.time()))
        except NotSent as refused:
            log.error("Not sent: %s", refused)  # noqa: TRY400 - a sentence, no traceback
            if attempt < options.attempts:
                time.sleep(refused.wait or wait)
                wait = min(2 * wait, LONGEST_WAIT)
        else:
            log.info("Sent: %s files.", len(report["files"]))
            return 0
    return 1


def run(options: argparse.Namespace) -> NoReturn:
    """For ever: send what changed at once, and the rest before it is overdue."""
    sent, sent_at, wait = None, 0.0, FIRST_WAIT
    # All nodes of a cluster start at once; their reports need not.
    time.sleep(random.uniform(0, options.poll))  # noqa: S311 - as below
    while True:
        report = collect(options)
        pause = float(options.poll)
        # A second is kept back so that polls which are a little late do not double the interval.
        if report != sent or time.monotonic() - sent_at >= options.interval - 1:
            try:
                send(options, pack(report, time.time()))
            except NotSent as refused:
                pause = refused.wait or wait * random.uniform(0.5, 1.5)  # noqa: S311 - it only spreads attempts
                wait = min(2 * wait, LONGEST_WAIT)
                log.error("Not sent: %s; next attempt in %.0f s", refused, pause)  # noqa: TRY400 - as above
            else:
                sent, sent_at, wait = report, time.monotonic(), FIRST_WAIT
                log.info("Sent: %s files.", len(report["files"]))
        time.sleep(pause)


# --- options -------------------------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> argparse.Namespace:
    env = os.environ
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--portal", default=env.get("CDI_PORTAL"), help="address of the portal (https://…)")
    parser.add_argument("--cluster", default=env.get("CDI_CLUSTER"), help="the cluster's name in the portal")
    parser.add_argument("--node", default=env.get("CDI_NODE"), help="this node's name")
    parser.add_argument("--token-file", default=env.get("CDI_TOKEN_FILE"), help="file with the node's token")
    parser.add_argument("--ca-file", default=env.get("CDI_CA_FILE"), help="certificates to trust")
    parser.add_argument("--root", default=env.get("CDI_ROOT", "/"), help="where the node's / is mounted")
    parser.add_argument(
        "--spec-dir", action="append", help="default: /etc/cdi, /var/run/cdi and what the runtime names"
    )
    parser.add_argument("--runtime", choices=("containerd", "cri-o"), default=env.get("CDI_RUNTIME"))
    parser.add_argument("--runtime-version", default=env.get("CDI_RUNTIME_VERSION", ""))
    parser.add_argument("--containerd-config", action="append", metavar="GLOB")
    parser.add_argument("--crio-config", action="append", metavar="GLOB")
    parser.add_argument("--interval", type=int, default=env.get("CDI_INTERVAL", "600"), help="seconds")
    parser.add_argument("--poll", type=int, default=env.get("CDI_POLL", "15"), help="seconds")
    parser.add_argument("--once", action="store_true", help="send one report and leave")
    parser.add_argument("--attempts", type=int, default=3, help="with --once")
    parser.add_argument("--print", action="store_true", help="print the report instead of sending it")
    options = parser.parse_args(arguments)
    listed = [path for path in env.get("CDI_SPEC_DIRS", "").split(":") if path]
    options.spec_dir = options.spec_dir or listed
    configs = env.get("CDI_CONTAINERD_CONFIG", "").split(":") if env.get("CDI_CONTAINERD_CONFIG") else []
    named = options.containerd_config or configs
    options.containerd_config = [named] if named else [list(layout) for layout in CONTAINERD_LAYOUTS]
    options.crio_config = options.crio_config or list(CRIO_CONFIGS)
    for name in ("cluster", "node", *(() if options.print else ("portal", "token_file"))):
        if not getattr(options, name):
            parser.error(f"--{name.replace('_', '-')} is missing")
    if not 10 <= options.interval <= 86_400 or not 1 <= options.poll <= options.interval:
        parser.error("--interval is between 10 and 86400, --poll between 1 and the interval")
    if any(not path.startswith("/") for path in options.spec_dir):
        parser.error("--spec-dir is an absolute path")
    if not options.print:
        try:
            where = urlsplit(options.portal)
            host = where.hostname
        except ValueError:
            parser.error("--portal is no address")
        # In clear text the token would be everybody's on the way.
        on_loopback = where.scheme == "http" and host in {"127.0.0.1", "::1", "localhost"}
        if where.scheme != "https" and not on_loopback:
            parser.error("--portal begins with https://")
    return options


def main(arguments: list[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    options = parse(arguments)
    if options.print:
        sys.stdout.buffer.write(pack(collect(options), time.time()) + b"\n")
        return 0
    return run_once(options) if options.once else run(options)


if __name__ == "__main__":
    sys.exit(main())
