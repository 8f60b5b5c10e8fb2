"""Network relay inside a sandbox without network: listens on loopback, passes each connection to the runtime, and
starts the command.

Run as a program, `network_relay.py PORT FD ARGV…`, with the standard library alone. For every connection it creates a
socket pair and sends one end over FD to the runtime, whose proxy decides what it may reach.
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
    # Not dumpable: the command runs as the same user and must not read or change this process through /proc.
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise SystemExit("The network relay could not be protected from the command.")
    port, out, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    runtime = socket.socket(fileno=out)
    runtime.set_inheritable(False)
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    # Python ignores SIGPIPE (13) and SIGXFSZ (25), and ignored signals survive exec.
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
    """Copy until the source ends, then shut down writing to the target."""
    try:
        while block := source.recv(BLOCK):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        target.close()


if __name__ == "__main__":
    main()
