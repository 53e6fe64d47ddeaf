"""The one training loop: Adam, for one network or for several side by side, and an early word where one breaks down."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from poela.core.errors import PoelaError, PoelaWarning, TrainingError
from poela.core.interruption import safe_point
from poela.networks.subnormals import no_subnormals

CHECK_EVERY = 10  # steps between checks of the loss and the gradient (a check waits for the GPU)
DEAD_CHECKS = 3  # looks in a row with an exactly zero gradient before the word is given

BROKEN_DOWN = (
    "{}: the loss or its gradient became NaN or infinite at step {}; "
    "lower the learning rate, or look for extreme rewards or contexts"
)
DEAD_GRADIENT = (
    "{}: the gradient has been exactly zero up to step {}, so nothing is being learned; "
    "standardise the inputs, use plain logits, or start from another seed"
)


def say(event: PoelaError | PoelaWarning) -> None:
    """Raise an error, issue a warning."""
    if isinstance(event, PoelaError):
        raise event
    warnings.warn(event, stacklevel=4)


def train_steps(
    network: nn.Module,
    loss: Callable[[int], Tensor],
    *,
    name: str | Sequence[str],
    steps: int,
    learning_rate: float,
    weight_decay: float = 0.0,
    tell: Callable[[int, PoelaError | PoelaWarning], None] = lambda number, event: say(event),
) -> Iterator[int]:
    """Minimise `loss(step)`, yielding after each step how many are done (from 1).

    Several names stand for as many networks side by side: the loss has an entry, and every parameter a first axis, for
    each. A loss that is NaN or infinite is a `TrainingError`, a gradient that stays exactly zero a warning: `tell` gets
    the number of the network and what is to be said of it.

    >>> network = nn.Linear(1, 1, bias=False)
    >>> for done in train_steps(network, lambda step: network.weight.square().sum(), name="toy", steps=200,
    ...                         learning_rate=0.1):
    ...     pass
    >>> bool(network.weight.abs() < 0.05)
    True
    """
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = _Adam(parameters, learning_rate, weight_decay)
    check = _Check([name] if isinstance(name, str) else name, parameters, tell)
    for step in range(steps):
        safe_point()
        with no_subnormals(), _gradients():
            for parameter in parameters:
                parameter.grad = None
            losses = loss(step)
            # Of a single loss torch makes the same slope by itself; given one, it would first import an algebra system.
            losses.backward(None if losses.numel() == 1 else torch.ones_like(losses))  # type: ignore[no-untyped-call]
            if step % CHECK_EVERY == 0 or step == steps - 1:
                check(step, losses.detach())
            optimizer.step()
        yield step + 1


@contextmanager
def _gradients() -> Iterator[None]:
    """With gradients, whatever the user has set, and that again afterwards: Ctrl-C may come while torch changes it."""
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    try:
        yield
    finally:
        torch.set_grad_enabled(before)


class _Adam:
    """`torch.optim.Adam` without what it does around its fused kernel: in small networks that takes most of a step."""

    def __init__(self, parameters: Sequence[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        self._learning_rate, self._weight_decay = learning_rate, weight_decay
        self._state = [
            (own, torch.zeros_like(own), torch.zeros_like(own), torch.zeros((), dtype=torch.float32, device=own.device))
            for own in parameters
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Move each parameter that has a gradient."""
        moved = [(own.grad, own, *state) for own, *state in self._state if own.grad is not None]
        gradients, parameters, means, squares, steps = ([*of_each] for of_each in zip(*moved, strict=True))
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            parameters,
            gradients,
            means,
            squares,
            [],
            steps,
            lr=self._learning_rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=self._weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


class _Check:
    """Checks the loss and the gradient of each network."""

    def __init__(
        self,
        names: Sequence[str],
        parameters: Sequence[nn.Parameter],
        tell: Callable[[int, PoelaError | PoelaWarning], None],
    ) -> None:
        self._names, self._parameters, self._tell = names, parameters, tell
        self._dead = [0] * len(names)

    def __call__(self, step: int, losses: Tensor) -> None:
        each = len(self._names)
        gradient = torch.cat([p.grad.reshape(each, -1) for p in self._parameters if p.grad is not None], dim=1)
        finite = torch.isfinite(losses.reshape(each)) & torch.isfinite(gradient).all(dim=1)
        sound_and_alive = torch.stack([finite, gradient.any(dim=1)], dim=1).tolist()
        for number, (name, (is_finite, is_alive)) in enumerate(zip(self._names, sound_and_alive, strict=True)):
            if not is_finite:
                self._tell(number, TrainingError(BROKEN_DOWN.format(name, step)))
            self._dead[number] = 0 if is_alive else self._dead[number] + 1
            if self._dead[number] == DEAD_CHECKS:
                self._tell(number, PoelaWarning(DEAD_GRADIENT.format(name, step)))
