"""Python reads this at its start where it is on the path: nothing may leave this machine.

Every connection and every question for an address is looked at before it is made. One that leads
beyond the loopback is refused, and noted in the file that ``MAMBAVIZ_GUARD`` names.
"""

import os
import sys

LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "", None)
NOTES = os.environ.get("MAMBAVIZ_GUARD")


def watch(event, args):
    """An audit hook of the interpreter, which no library can go around."""
    if event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = args[0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in LOCAL:
        with open(NOTES, "a", encoding="utf-8") as notes:
            notes.write(f"{event} {args[:2]}\n")
        raise ConnectionRefusedError(f"{event} to {host}: nothing may leave this machine")


if NOTES:
    sys.addaudithook(watch)
