"""The one training loop: Adam, checkpoints, and an early word when training breaks down."""

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from poela.core.errors import PoelaWarning, TrainingError
from poela.core.interruption import safe_point

LOOK_EVERY = 10  # steps between looks at the loss and the gradient (a look waits for the GPU)
DEAD_LOOKS = 3  # looks in a row with an exactly zero gradient before the word is given


def train_steps(
    network: nn.Module,
    loss: Callable[[int], Tensor],
    *,
    name: str,
    steps: int,
    learning_rate: float,
    weight_decay: float = 0.0,
    after_step: Callable[[int], None] | None = None,
    look: Callable[[int, Tensor], None] | None = None,
) -> Iterator[int]:
    """Minimise `loss(step)`, yielding after each step how many are done (from 1).

    A loss that is NaN or infinite raises `TrainingError`; a gradient that stays exactly zero is warned of. `look` is
    called with the step and its loss in place of these checks.

    >>> network = nn.Linear(1, 1, bias=False)
    >>> for done in train_steps(network, lambda step: network.weight.square().sum(), name="toy", steps=200,
    ...                         learning_rate=0.1):
    ...     pass
    >>> bool(network.weight.abs() < 0.05)
    True
    """
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    # Fused: on networks as small as these, the plain one spends most of a step in Python.
    optimizer = torch.optim.Adam(parameters, lr=learning_rate, weight_decay=weight_decay, fused=True)
    look = look or _Watch(name, parameters)
    for step in range(steps):
        safe_point()
        optimizer.zero_grad()
        value = loss(step)
        value.backward()  # type: ignore[no-untyped-call]
        if step % LOOK_EVERY == 0 or step == steps - 1:
            look(step, value)
        optimizer.step()
        if after_step is not None:
            after_step(step)
        yield step + 1


class _Watch:
    """Looks at the loss and the gradient of one network."""

    def __init__(self, name: str, parameters: list[nn.Parameter]) -> None:
        self._name, self._parameters, self._dead = name, parameters, 0

    def __call__(self, step: int, loss: Tensor) -> None:
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        finite = torch.isfinite(loss) & torch.stack([torch.isfinite(g).all() for g in gradients]).all()
        if not bool(finite):
            raise TrainingError(broken_down(self._name, step))
        self._dead = self._dead + 1 if not any(bool(g.any()) for g in gradients) else 0
        if self._dead == DEAD_LOOKS:
            warnings.warn(dead_gradient(self._name, step), PoelaWarning, stacklevel=4)


def broken_down(name: str, step: int) -> str:
    """What is said of a loss that cannot be followed any further."""
    return (
        f"{name}: the loss or its gradient became NaN or infinite at step {step}; "
        "lower the learning rate, or look for extreme rewards or contexts"
    )


def dead_gradient(name: str, step: int) -> str:
    """What is said of a network that does not learn."""
    return (
        f"{name}: the gradient has been exactly zero up to step {step}, so nothing is being learned; "
        "standardise the inputs, use plain logits, or start from another seed"
    )
