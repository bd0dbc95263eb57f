"""Becomes another program: `python -I -S launch.py [--die-with PID] [--hostname NAME] -- argv...`.

Takes a command; gives that command in this very process id, killed by the kernel when its starter dies, and under its
own host name when asked (a UTS name space). A file of its own, run by path, because doing this between fork and exec
inside a threaded test runner is unsafe. Must not import anything but the standard library.
"""

import ctypes
import os
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000


def main(arguments: list[str]) -> None:
    """Apply the options, then exec the command."""
    split = arguments.index("--")
    options = dict(zip(arguments[:split:2], arguments[1:split:2], strict=True))
    libc = ctypes.CDLL(None, use_errno=True)
    if "--hostname" in options:
        take_host_name(libc, options["--hostname"])
    # After the name space: a change of credentials would clear it again.
    if "--die-with" in options:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(options["--die-with"]):
            raise SystemExit("the starter is gone already")
    command = arguments[split + 1 :]
    os.execvp(command[0], command)


def take_host_name(libc: ctypes.CDLL, name: str) -> None:
    """Move into a new UTS name space and name it; without root through a user name space."""
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUTS) != 0:
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0:
            raise SystemExit("a second host name needs root or unprivileged user name spaces on this machine")
        for file, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{file}", "w") as handle:
                handle.write(text)
    socket.sethostname(name)


if __name__ == "__main__":
    main(sys.argv[1:])
