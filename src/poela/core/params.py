"""Settings by name, as scikit-learn's tools ask for them: `sklearn.base.clone` and grids of parameters work."""

import inspect
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from poela.core.errors import InputError

S = TypeVar("S", bound="HasParams")


class HasParams:
    """Gives `get_params`, `set_params` and a short `repr` to classes whose settings are what they are made with.

    >>> class Power(HasParams):
    ...     def __init__(self, power=2.0):
    ...         self.power = power
    >>> Power().set_params(power=3.0)
    Power(power=3.0)
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by its name; with `deep`, those of settings that have settings too, as `rule__radius`."""
        params = {name: getattr(self, name) for name in _names(type(self))}
        if deep:
            inner = [(name, value) for name, value in params.items() if _has_params(value)]
            for name, value in inner:
                params |= {f"{name}__{key}": own for key, own in value.get_params().items()}
        return params

    def set_params(self: S, **params: Any) -> S:
        """With other settings: a frozen object stays as it is, so use what is returned."""
        own = self.get_params(deep=False)
        inner: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in own:
                raise InputError(f"{type(self).__name__} has no setting {name!r}: it has {', '.join(sorted(own))}")
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                own[name] = value
        for name, settings in inner.items():
            if not _has_params(own[name]):
                raise InputError(f"{name} of {type(self).__name__} has no settings of its own")
            own[name] = own[name].set_params(**settings)
        return type(self)(**own)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in _names(type(self)) if _differs(self, name))
        return f"{type(self).__name__}({said})"


def _has_params(value: Any) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)


def _names(kind: Any) -> list[str]:
    if is_dataclass(kind):
        return [item.name for item in fields(kind) if item.init]
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def _differs(thing: Any, name: str) -> bool:
    """Whether a setting is another than its default, so that it is worth saying."""
    default = inspect.signature(type(thing)).parameters[name].default
    value = getattr(thing, name, default)
    return value is not default and not (type(value) is type(default) and repr(value) == repr(default))
