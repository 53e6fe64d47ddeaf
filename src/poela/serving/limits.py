"""How much one client may ask for: work is paid for in steps, and who has spent more than it earns waits."""

import ipaddress
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

RATE = 2000.0  # steps that a client earns in a second
HEALTH_RATE = 200.0  # requests to /healthz in a second, which others' health checks are not slowed down by
LONGEST_WAIT = 1.0  # seconds that a request waits for its client's credit, before it is refused
REQUEST_COST, REFUSED_COST, EXPLAINED_COST = 1.0, 10.0, 10.0  # in steps
BYTES_OF_A_STEP = 1000  # of a body: reading it is work, too
MOST_REMEMBERED = 10_000  # clients


@lru_cache(MOST_REMEMBERED)
def client_of(host: str) -> str:
    """Who asks, by address; of IPv6 the first half, since a client has all that begin alike.

    >>> client_of("10.0.0.7"), client_of("2001:db8:1:2:3:4:5:6"), client_of("::ffff:10.0.0.7"), client_of("unix")
    ('10.0.0.7', '2001:db8:1:2::', '10.0.0.7', 'unix')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)


@dataclass(eq=False)
class Credits:
    """What each client has left: it earns `rate` steps a second, and keeps at most what a second earns.

    Whoever has anything left may ask for anything, and owes the rest: so large requests pass, one by one.

    >>> now = 0.0
    >>> credits = Credits(rate=10.0, clock=lambda: now)
    >>> credits.charge("a", 25.0)
    >>> credits.seconds_owed("a"), credits.seconds_owed("b")
    (1.5, 0.0)
    >>> now = 1.0
    >>> credits.seconds_owed("a")
    0.5
    """

    rate: float = RATE
    clock: Callable[[], float] = time.monotonic  # no clock on the wall: that may jump
    _accounts: dict[str, tuple[float, float]] = field(default_factory=dict)  # credit, and when it was that

    def charge(self, client: str, cost: float) -> None:
        """Take the cost of some work from its client."""
        now = self.clock()
        self._accounts[client] = (self._credit(client, now) - cost, now)
        if len(self._accounts) > MOST_REMEMBERED:
            self._forget(now)

    def seconds_owed(self, client: str) -> float:
        """How long it takes until this client has paid."""
        return max(-self._credit(client, self.clock()), 0.0) / self.rate

    def _credit(self, client: str, now: float) -> float:
        credit, since = self._accounts.get(client, (self.rate, now))
        return min(credit + self.rate * (now - since), self.rate)

    def _forget(self, now: float) -> None:
        """Forget those who owe nothing; where all do, the ones who owe least."""
        credit = {client: self._credit(client, now) for client in self._accounts}
        poorest = sorted(credit, key=credit.__getitem__)[: MOST_REMEMBERED // 2]
        self._accounts = {client: (credit[client], now) for client in poorest if credit[client] < self.rate}


def retry_after(seconds: float) -> str:
    """For the header of that name: whole seconds, one at least.

    >>> retry_after(0.2), retry_after(3.5)
    ('1', '4')
    """
    return str(max(math.ceil(seconds), 1))
