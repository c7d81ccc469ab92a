"""The web server of the page: this machine only by default, never a share URL, a clear word on a port that is taken."""

import contextlib
import io
import ipaddress
import os
import socket
import warnings
from pathlib import Path
from typing import Any

from stickslip.errors import InputError, MissingExtra

HOST = "127.0.0.1"
PORT = 8080
"""Where the page is unless something else is asked for; the next free port if that one is taken."""
_TRIES = 100


def viser() -> Any:
    """The package viser."""
    try:
        import viser  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("the viewer needs viser: pip install 'stickslip[viewer]'") from None
    return viser


def serve(port: int | None, host: str, label: str) -> Any:
    """A running viser server. A port that is given is the one that is used; None takes the first free one."""
    package = viser()
    port = find_port(port, host)
    if not is_local(host):
        warnings.warn(
            f"the viewer listens on {host}:{port}, where anybody who can reach this machine can watch and control it: "
            f"there is no password. To look from elsewhere, leave the host at {HOST} and use "
            f"ssh -L {port}:127.0.0.1:{port}",
            stacklevel=3,
        )
    with contextlib.redirect_stdout(io.StringIO()):  # viser prints a panel of its own
        server = package.ViserServer(host=host, port=port, label=label, verbose=False)
    if server.get_port() != port:
        halt(server)
        raise InputError(f"port {port} was taken a moment ago; try again")
    # a client must not be able to open a tunnel to the outside
    for message in ("ShareUrlRequest", "ShareUrlDisconnect"):
        server._websock_server.unregister_handler(getattr(package._messages, message))
    server.gui.configure_theme(show_share_button=False, show_logo=False, control_width="large")
    return server


def halt(server: Any) -> None:
    """End a server, without the line that viser prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        server.stop()


def is_local(host: str) -> bool:
    """Whether a host name is this machine's own, which nobody else can reach."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def find_port(port: int | None, host: str) -> int:
    """The port to use; raises InputError if one was given that is taken, or the host is not this machine's."""
    if port is not None:
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
            raise InputError(f"port is {port!r}: it must be a whole number from 1 to 65535")
        if not _is_free(port, host):
            raise InputError(f"port {port} is taken by {owner(port)}; give another one, or none to get a free one")
        return port
    for candidate in range(PORT, PORT + _TRIES):
        if _is_free(candidate, host):
            return candidate
    raise InputError(f"no port from {PORT} to {PORT + _TRIES - 1} is free; give one")


def _is_free(port: int, host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"host {host!r}: {error}; give {HOST}, or an address of this machine") from None
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except PermissionError:
            raise InputError(f"port {port}: this user may not listen there; give one above 1023") from None
        except OSError as error:
            if error.errno == 99 or "assign" in str(error):
                raise InputError(f"host {host!r} is no address of this machine; give {HOST}") from None
            return False
    return True


def owner(port: int) -> str:
    """Who listens on a port, as far as this user may see: "python3 (process 123)"."""
    sockets = _listening(port)
    for folder in Path("/proc").glob("[0-9]*") if sockets else []:
        with contextlib.suppress(OSError):
            for link in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(link) in sockets:
                        return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
    return "another program"


def _listening(port: int) -> set[str]:
    """The sockets that listen on a port, as links in /proc name them; empty where there is no /proc."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == "0A":
                    found.add(f"socket:[{fields[9]}]")
    return found
