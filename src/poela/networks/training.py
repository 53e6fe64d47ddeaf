"""The one training loop: Adam, checkpoints, and an early word when training breaks down."""

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from poela.core.errors import PoelaWarning, TrainingError

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
) -> Iterator[int]:
    """Minimise `loss(step)`, yielding after each step how many are done (from 1).

    A loss that is NaN or infinite raises `TrainingError`; a gradient that stays exactly zero is warned of.

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
    dead = 0
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(step)
        value.backward()  # type: ignore[no-untyped-call]
        if step % LOOK_EVERY == 0 or step == steps - 1:
            _refuse_broken(name, step, value, parameters)
            dead = dead + 1 if _is_dead(parameters) else 0
            if dead == DEAD_LOOKS:
                warnings.warn(_dead_gradient(name, step), PoelaWarning, stacklevel=2)
        optimizer.step()
        if after_step is not None:
            after_step(step)
        yield step + 1


def _refuse_broken(name: str, step: int, loss: Tensor, parameters: list[nn.Parameter]) -> None:
    finite = (
        torch.isfinite(loss)
        & torch.stack([torch.isfinite(p.grad).all() for p in parameters if p.grad is not None]).all()
    )
    if not bool(finite):
        raise TrainingError(
            f"{name}: the loss or its gradient became NaN or infinite at step {step}; "
            "lower the learning rate, or look for extreme rewards or contexts"
        )


def _is_dead(parameters: list[nn.Parameter]) -> bool:
    return not any(bool(p.grad.any()) for p in parameters if p.grad is not None)


def _dead_gradient(name: str, step: int) -> str:
    return (
        f"{name}: the gradient has been exactly zero up to step {step}, so nothing is being learned; "
        "standardise the inputs, use plain logits, or start from another seed"
    )
