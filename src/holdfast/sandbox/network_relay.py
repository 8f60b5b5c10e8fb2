"""The way out of a sandbox without a network: listens on loopback, hands each connection over, starts the command.

Run inside the sandbox as a program, `network_relay.py PORT FD ARGV…`, with the standard library alone. Every connection
is one end of a new socket pair; the other end goes over FD to the runtime, which decides what it may reach.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading

BLOCK = 65_536
PR_SET_DUMPABLE = 4


def main() -> None:
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):  # the command must not reach into this process
        raise SystemExit("The relay could not be closed to the command.")
    port, out, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    runtime = socket.socket(fileno=out)
    runtime.set_inheritable(False)
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    command = os.posix_spawnp(argv[0], argv, os.environ, setsigdef=(13, 25))
    threading.Thread(target=accept_connections, args=(listener, runtime), daemon=True).start()
    _, status = os.waitpid(command, 0)
    if os.WIFSIGNALED(status):
        os._exit(128 + os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def accept_connections(listener: socket.socket, runtime: socket.socket) -> None:
    while True:
        inside, _ = listener.accept()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(runtime, [b"c"], [theirs.fileno()])
            except OSError:
                inside.close()
                ours.close()
                continue
        for pair in ((inside, ours), (ours, inside)):
            threading.Thread(target=copy_stream, args=pair, daemon=True).start()


def copy_stream(source: socket.socket, target: socket.socket) -> None:
    """Until the source ends, which the target is told."""
    try:
        while block := source.recv(BLOCK):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        target.close()


if __name__ == "__main__":
    main()
