"""The table of behavior models: a new one is one file and one line here, and the contract tests find it."""

from typing import TYPE_CHECKING

from poela.core.registry import Registry, offered

if TYPE_CHECKING:
    from poela.behavior.model import Behavior

BEHAVIORS: "Registry[type[Behavior]]" = Registry(
    "poela.behaviors",
    {
        "knn": "poela.behavior.propensities:KNNBehavior",
        "clone": "poela.behavior.clone:CloneBehavior",
        "recurrent": "poela.behavior.clone:RecurrentCloneBehavior",
        "multinomial": "poela.behavior.multinomial:MultinomialBehavior",
        "boosted": "poela.behavior.boosted:BoostedBehavior",
    },
)

# What a file may name, beside the policies; "module:attribute" comes from here or an installed package, never a file.
STORED_KINDS = {
    **offered("poela.stored_kinds"),
    "knn_behavior": "poela.behavior.propensities:KNNModel",
    "clone_behavior": "poela.behavior.clone:CloneModel",
    "recurrent_behavior": "poela.behavior.clone:RecurrentCloneModel",
    "multinomial_behavior": "poela.behavior.multinomial:MultinomialModel",
    "boosted_behavior": "poela.behavior.boosted:BoostedModel",
    "tempered_behavior": "poela.behavior.tempered:TemperedModel",
    "gaussian_behavior": "poela.behavior.gaussian:GaussianModel",
    "history_behavior": "poela.behavior.history:HistoryModel",
}
