"""A process that has the desk loaded and forks for each command: ``python -m tests.documents.warm SOCKET``.

A command of the desk takes seconds to import what it needs and hardly any time for the rest. `client.py`
stands in the place of Python in the sandbox: it hands over its arguments and open files, and ends as the
command did. The command is still a process with a command line, a directory and streams of its own.
"""

import json
import os
import runpy
import signal
import socket
import sys
import traceback

# Modules that are run here; everything else is given to Python itself.
MODULES = ("portal.dra", "portal.translations", "tests.documents.prepare", "tests.documents.serve")


def main(path: str) -> None:
    import django

    django.setup()
    from django.core.management import get_commands
    from django.urls import get_resolver

    get_commands()
    _ = get_resolver().url_patterns
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _address = listener.accept()
            if os.fork() == 0:
                listener.close()
                # Ends without what the parent's interpreter has to clean up.
                os._exit(_run(connection))
            connection.close()


def _run(connection: socket.socket) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, descriptors, _flags, _address = socket.recv_fds(connection, 1 << 20, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    asked = json.loads(message)
    os.chdir(asked["directory"])
    status = _status_of(asked["arguments"])
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    connection.sendall(bytes([status]))
    return status


def _status_of(arguments: list[str]) -> int:
    try:
        if arguments[0] == "manage.py":
            from django.core.management import execute_from_command_line

            execute_from_command_line(arguments)
        else:
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        if isinstance(ending.code, str):
            sys.stderr.write(f"{ending.code}\n")
            return 1
        return ending.code or 0
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1])
