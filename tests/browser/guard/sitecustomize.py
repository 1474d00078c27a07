"""Python reads this at its start where it is on the path: nothing may leave this machine.

Every connection and every question for an address is looked at before it is made. One that leads
beyond the loopback is refused, and noted in the file that ``MAMBAVIZ_GUARD`` names. The clock of
the day is off by the seconds in the file that ``MAMBAVIZ_CLOCK`` names, as they stand at the time.
"""

import os
import sys
import time

LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "", None)
NOTES = os.environ.get("MAMBAVIZ_GUARD")
CLOCK = os.environ.get("MAMBAVIZ_CLOCK")


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


def set_clock(true_time=time.time):
    """The time of day, as far off as the file says."""
    with open(CLOCK, encoding="utf-8") as off:
        return true_time() + float(off.read() or 0)


if CLOCK:
    time.time = set_clock
