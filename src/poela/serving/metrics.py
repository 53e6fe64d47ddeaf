"""Counts of what the server does, as Prometheus reads them."""

from collections import Counter
from dataclasses import dataclass, field

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@dataclass
class Metrics:
    """Requests by route and status, how long they took, and what was decided.

    >>> metrics = Metrics()
    >>> metrics.request("/v1/decide", 200, 0.003)
    >>> print(metrics.text().splitlines()[2])
    poela_requests_total{path="/v1/decide",status="200"} 1
    """

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    within: Counter[float] = field(default_factory=Counter)
    seconds: float = 0.0
    decisions: Counter[str] = field(default_factory=Counter)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[path, status] += 1
        self.seconds += seconds
        for limit in SECONDS:
            self.within[limit] += seconds <= limit

    def decided(self, answers: list[dict[str, object]]) -> None:
        """Count decisions, and those that were left to people."""
        self.decisions["decided"] += len(answers)
        self.decisions["deferred"] += sum(bool(answer["defer"]) for answer in answers)

    def text(self) -> str:
        """In the text format, version 0.0.4."""
        total = sum(self.requests.values())
        lines = [
            *_about("requests_total", "counter", "Requests by path and status."),
            *(
                f'poela_requests_total{{path="{path}",status="{status}"}} {count}'
                for (path, status), count in sorted(self.requests.items())
            ),
            *_about("request_seconds", "histogram", "How long requests took."),
            *(f'poela_request_seconds_bucket{{le="{limit:g}"}} {self.within[limit]}' for limit in SECONDS),
            f'poela_request_seconds_bucket{{le="+Inf"}} {total}',
            f"poela_request_seconds_sum {self.seconds:.6f}",
            f"poela_request_seconds_count {total}",
            *_about("decisions_total", "counter", "Cases that were decided about."),
            f"poela_decisions_total {self.decisions['decided']}",
            *_about("deferred_total", "counter", "Cases unlike any logged case, deferred to people."),
            f"poela_deferred_total {self.decisions['deferred']}",
        ]
        return "\n".join(lines) + "\n"


def _about(name: str, kind: str, what: str) -> tuple[str, str]:
    return f"# HELP poela_{name} {what}", f"# TYPE poela_{name} {kind}"
