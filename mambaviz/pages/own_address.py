"""This server does not ask what its own address is.

Streamlit wants to know it for every page of another site that tries to open a session, in case that
page is its own after all: it asks a server on the internet, and nobody else is served until that
has answered or not. Whose page it is, the Host line of the request says, or the settings do.
"""

from __future__ import annotations

from streamlit import net_util


def keep_unknown() -> None:
    """From now on, for all sessions."""
    net_util.get_external_ip = net_util.get_internal_ip = lambda: None
