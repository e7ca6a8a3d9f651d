"""Stands in the place of `.venv/bin/python` in the sandbox: see `warm`. Imports next to nothing."""

import json
import os
import socket
import sys

REAL = os.environ["DOCUMENTS_PYTHON"]
MODULES = os.environ["DOCUMENTS_MODULES"].split()
arguments = sys.argv[1:]
if arguments[:1] == ["manage.py"] or (arguments[:1] == ["-m"] and arguments[1] in MODULES):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["DOCUMENTS_SOCKET"])
        asked = json.dumps({"arguments": arguments, "directory": os.getcwd()})
        socket.send_fds(connection, [asked.encode()], [0, 1, 2])
        # Nothing comes from a command that was ended from outside.
        sys.exit((connection.recv(1) or b"\x01")[0])
os.execv(REAL, [REAL, *arguments])
