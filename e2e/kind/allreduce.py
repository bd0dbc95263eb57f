"""A worker of a ring: all sum up their numbers over TCP, and each checks the sum.

Takes SIZE, SERVICE, JOB (environment) and its own JOB_COMPLETION_INDEX, and the stable names that a headless Service
gives the pods of an Indexed Job; ends with 0 when the sum is right.
Runs in a container, with the standard library only.
"""

import os
import socket
import sys
import time

PORT = 7000
DEADLINE = 120


def main() -> None:
    """Pass what was heard on to the next, SIZE-1 times: then everybody has heard every number."""
    size, rank = int(os.environ["SIZE"]), int(os.environ["JOB_COMPLETION_INDEX"])
    listener = socket.create_server(("", PORT))
    listener.settimeout(DEADLINE)
    following = connect(f"{os.environ['JOB']}-{(rank + 1) % size}.{os.environ['SERVICE']}")
    before, _ = listener.accept()
    before.settimeout(DEADLINE)
    own = passing = (rank + 1) ** 2
    total = own
    with before.makefile("r") as heard:
        for _ in range(size - 1):
            following.sendall(f"{passing}\n".encode())
            passing = int(heard.readline())
            total += passing
    want = sum((other + 1) ** 2 for other in range(size))
    print(f"rank {rank} of {size}: sum {total}, gpus {os.environ.get('NVIDIA_VISIBLE_DEVICES', 'none')}", flush=True)
    sys.exit(total != want)


def connect(host: str) -> socket.socket:
    """A connection, as soon as the name is known and somebody listens."""
    end = time.monotonic() + DEADLINE
    while True:
        try:
            return socket.create_connection((host, PORT), timeout=5)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


main()
