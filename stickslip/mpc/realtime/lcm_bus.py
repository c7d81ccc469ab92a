"""The bus over LCM, as many robots have it: UDP multicast, which by default does not leave the machine.

LCM knows no access control: whoever can reach the multicast group can read the messages and send others. Each trial has
channels of its own, so that two trials at once do not mix.
"""

import collections
import re
import secrets
import select
import time
from collections.abc import Callable
from typing import Any

from stickslip.errors import DeviceError, InputError, MissingExtra
from stickslip.mpc.realtime.bus import MAX_BATCH, Bus

URL = "udpm://239.255.76.67:7667?ttl=0"
"""LCM's own group; with ttl=0 nothing leaves the machine."""
PROVIDERS = ("udpm://", "tcpq://")
"""What can connect two processes."""
SIDES = ("plant", "planner")
SELF_TEST = 2.0
"""Time a message has to come back to its own sender [s]."""
_PREFIX = re.compile(r"[a-z0-9-]{1,32}\Z")


def new_prefix() -> str:
    """A name for the channels of one trial."""
    return f"stickslip-{secrets.token_hex(8)}"


class LcmBus(Bus):
    """One end of a bus over LCM. Types have channels of their own: PREFIX.SIDE.TYPE."""

    def __init__(self, side: str, prefix: str, url: str = URL, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        if side not in SIDES:
            raise InputError(f"side {side!r} of a bus: it must be one of {', '.join(SIDES)}")
        if not _PREFIX.match(prefix):
            raise InputError(f"channel prefix {prefix!r}: it must be 1 to 32 of a-z, 0-9 and -; use `new_prefix`")
        self._lcm: Any = _connect(url)
        self._url, self._name = url, f"{prefix}.{side}"
        self._waiting: collections.deque[bytes] = collections.deque(maxlen=MAX_BATCH)  # the oldest go
        self._test(f"{prefix}.test.{side}")
        other = SIDES[1 - SIDES.index(side)]
        channels = re.escape(f"{prefix}.{other}.") + ".*"
        self._lcm.subscribe(channels, lambda channel, data: self._waiting.append(data)).set_queue_capacity(MAX_BATCH)

    def _test(self, channel: str) -> None:
        """Send a message to ourselves: whether there is multicast at all."""
        came: list[bytes] = []
        subscription = self._lcm.subscribe(re.escape(channel), lambda name, data: came.append(data))
        deadline = time.monotonic() + SELF_TEST
        while not came and time.monotonic() < deadline:
            self._lcm.publish(channel, b"test")
            self._lcm.handle_timeout(100)
        self._lcm.unsubscribe(subscription)
        if not came:
            raise DeviceError(
                f"LCM at {self._url} did not bring a message back within {SELF_TEST:g} s: this machine may have no "
                "multicast; see https://lcm-proj.github.io/lcm/content/multicast-setup.html or use the bus 'loopback'"
            )

    def _send(self, data: bytes, kind: str) -> bool:
        try:
            self._lcm.publish(f"{self._name}.{kind}", data)
        except (OSError, RuntimeError):
            return False
        return True

    def _receive(self, timeout: float) -> list[bytes]:
        ready, _, _ = select.select([self._lcm.fileno()], [], [], max(0.0, timeout))
        for _ in range(MAX_BATCH):
            if not ready or not self._lcm.handle_timeout(0):
                break
        batch = list(self._waiting)
        self._waiting.clear()
        return batch

    def close(self) -> None:
        self._lcm = None


def _connect(url: str) -> Any:
    if not url.startswith(PROVIDERS):
        raise InputError(f"LCM URL {url!r}: it must begin with {' or '.join(PROVIDERS)} to connect two processes")
    try:
        import lcm  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("the bus 'lcm' needs lcm: install the extra with pip install 'stickslip[lcm]'") from None
    try:
        return lcm.LCM(url)
    except RuntimeError as error:
        raise DeviceError(f"LCM cannot open {url!r} ({error}); correct the URL, or use the bus 'loopback'") from None
