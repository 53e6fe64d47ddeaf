"""Policy files that somebody has changed, with the right checksums: one sentence, at once, whatever they say."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.robustness.forging import Forged, base, base_policies, bases, check_works, logs, refusal

from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.learners.continuous import ContinuousPOELA
from poela.networks.modules import NetworkShape
from poela.policies.storage import KINDS, UNFORESEEN, load_object, load_policy
from poela.simulators.registry import simulate
from poela.studies.fold_data import BEHAVIOR_FORMAT, read_behavior

Edit = Callable[[Forged], Any]
OTHERS = {
    "support_model",
    "supported_behavior",
    "logged_propensities",
    "gaussian_behavior",
    "continuous_eligibility",
    "gaussian_policy",
    "foreign_policy",  # in no file: tests/studies/test_objects.py
    "foreign_doses",  # the same: tests/studies/test_foreign_doses.py
}  # below and in tests/eligibility/test_support.py, on their own


def put(name: str, value: Any, at: str = "") -> Edit:
    """Another value of a setting ("network.hidden": one within another)."""

    def edit(forged: Forged) -> None:
        settings, names = forged[at].settings, name.split(".")
        for outer in names[:-1]:
            settings = settings[outer]
        settings[names[-1]] = value

    return edit


def lose(name: str, at: str = "") -> Edit:
    return lambda forged: forged[at].settings.pop(name)


def array(name: str, change: Callable[[NDArray[Any]], Any], at: str = "") -> Edit:
    """Another array in the place of one."""

    def edit(forged: Forged) -> None:
        forged[at].arrays[name] = np.asarray(change(forged[at].arrays[name]))

    return edit


def first(number: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The same array with another first number."""

    def change(values: NDArray[Any]) -> NDArray[Any]:
        values.flat[0] = number
        return values

    return change


def lose_array(name: str, at: str = "") -> Edit:
    return lambda forged: forged[at].arrays.pop(name)


def give_array(name: str, values: NDArray[Any], at: str = "") -> Edit:
    return lambda forged: forged[at].arrays.update({name: values})


def part(name: str, of: str, path: str = "", at: str = "") -> Edit:
    """A part taken from another policy."""

    def edit(forged: Forged) -> None:
        forged[at].parts[name] = base(of)[path]

    return edit


def lose_part(name: str, at: str = "") -> Edit:
    return lambda forged: forged[at].parts.pop(name)


def kind(name: str, at: str = "") -> Edit:
    def edit(forged: Forged) -> None:
        forged[at].kind = name

    return edit


def all_of(*edits: Edit) -> Edit:
    def edit(forged: Forged) -> None:
        for one in edits:
            one(forged)

    return edit


def nested(depth: int) -> Edit:
    """A model within itself, many times."""

    def edit(forged: Forged) -> None:
        inner = forged["model"]
        for _ in range(depth):
            inner = Forged(forged.kind, forged.settings, {}, {"model": inner})
        forged.parts["model"] = inner

    return edit


RULE, MODEL, STEP = "eligibility", "behavior", "values/step_0"
NAN, INF = float("nan"), float("inf")

CASES: dict[str, tuple[str, Edit, str]] = {
    # names
    "features are text": ("radius", put("feature_names", "ab"), "feature_names"),
    "a feature is a number": ("radius", put("feature_names", ["age", 3]), "feature_names"),
    "a feature stands twice": ("radius", put("feature_names", ["age", "age"]), "repetition"),
    "a feature cannot be printed": ("radius", put("feature_names", ["age", "\ud800"]), "feature_names"),
    "a feature more": ("radius", put("feature_names", ["age", "dose", "sex"]), "3 and 3"),
    "actions of two kinds": ("radius", put("action_names", ["none", "low", 3]), "action_names"),
    "an action stands twice": ("radius", put("action_names", ["none", "low", "low"]), "repetition"),
    "no actions": ("radius", put("action_names", []), "1 to 100000 names"),
    "too many actions": ("radius", put("action_names", list(range(100_001))), "1 to 100000 names"),
    "an action less": ("radius", put("action_names", ["none", "low"]), "2 and 2"),
    "actions lost": ("radius", lose("action_names"), "'action_names' is missing"),
    "an unknown setting": ("radius", put("novelty", 1), "'novelty' in the settings is unknown"),
    # networks
    "a layer of a billion": ("radius", put("network.hidden", [10**9, 4]), "at most 65536"),
    "a layer of minus one": ("radius", put("network.hidden", [-1, 4]), "hidden"),
    "a layer of one half": ("radius", put("network.hidden", [0.5, 4]), "hidden"),
    "layers as text": ("radius", put("network.hidden", "44"), "hidden"),
    "a million layers": ("radius", put("network.hidden", [4] * 10**6), "at most"),
    "one layer more": ("radius", put("network.hidden", [4, 4, 4]), "layers.6.weight"),
    "an unknown network": ("radius", put("network.kind", "lstm"), "'mlp' or 'gru'"),
    "an MLP as a GRU": ("radius", put("network.kind", "gru"), "recurrent"),
    "a GRU of two widths": ("gru", put("network.hidden", [4, 5]), "one width"),
    "a GRU without layers": ("gru", put("network.hidden", []), "one width"),
    "a billion inputs": ("radius", put("network.n_inputs", 10**9), "2 inputs"),
    "inputs beyond all numbers": ("radius", put("network.n_inputs", 10**400), "whole number"),
    "two outputs": ("radius", put("network.n_outputs", 2), "3 outputs"),
    "outputs as a truth": ("radius", put("network.n_outputs", True), "whole number"),
    "a flag as a number": ("radius", put("network.relu_outputs", 1), "true or false"),
    "a network of nothing": ("radius", put("network", None), "must be an object"),
    "a network with more": ("radius", put("network.dropout", 0.5), "'dropout'"),
    "a weight is NaN": ("radius", array("layers.0.weight", first(NAN)), "layers.0.weight holds"),
    "a weight is infinite": ("gru", array("recurrent.weight_ih_l0", first(-INF)), "holds"),
    "a mean is NaN": ("any", array("mean", first(NAN)), "mean holds"),
    "a scale of zero": ("any", array("scale", first(0)), "scale holds"),
    "a scale below zero": ("gru", array("scale", first(-1)), "scale holds"),
    "weights in double": ("radius", array("layers.0.bias", np.float64), "float32"),
    "weights as flags": ("radius", array("layers.0.bias", lambda a: a > 0), "float32"),
    "weights turned": ("radius", array("layers.4.weight", np.transpose), "(3, 4)"),
    "weights flat": ("radius", array("layers.2.weight", np.ravel), "(4, 4)"),
    "weights lost": ("radius", lose_array("layers.2.bias"), "'layers.2.bias' is missing"),
    "weights too many": ("any", array("mean", lambda a: a[:1]), "shape of mean"),
    "a greedy GRU": ("gru", kind("greedy_q_policy"), "GRU"),
    # rules
    "a radius below zero": ("radius", put("radius", "-1.0", RULE), "radius: it must be a number, at least 0"),
    "a radius of NaN": ("radius", put("radius", "nan", RULE), "radius: it must be a number, at least 0"),
    "a radius in words": ("radius", put("radius", "wide", RULE), "radius"),
    "a radius of many": ("radius", put("radius", [1.0], RULE), "radius"),
    "a radius beyond all numbers": ("radius", put("radius", 10**400, RULE), "radius"),
    "a radius lost": ("radius", put("radius", None, RULE), "in the arrays is unknown"),
    "a radius without contexts": ("any", put("radius", "1.0", RULE), "'contexts' is missing"),
    "an unknown metric": ("radius", put("metric", "x" * 10**6, RULE), "metric"),
    "unknown neighbours": ("radius", put("neighbours", "all", RULE), "neighbours"),
    "an unknown fallback": ("radius", put("fallback", ["all"], RULE), "fallback"),
    "a probability of two": ("likely", put("minimum_probability", 2, RULE), "at least 0 and at most 1"),
    "a share in words": ("greedy", put("relative_probability", "0.2", RULE), "relative_probability"),
    "too few weights": ("towards knn", put("weights", [1.0], RULE), "1 numbers for 2 features"),
    "a weight below zero": ("towards knn", put("weights", [-1.0, 1.0], RULE), "weights"),
    "an unknown scale": ("towards knn", put("scale", "ranks", RULE), "scale"),
    "a reach below zero": ("robust", put("reach", -1.0, RULE), "reach"),
    "a reach in words": ("robust", put("reach", "auto", RULE), "reach"),
    "a reach of NaN": ("robust", put("reach", "nan", RULE), "reach"),
    "a reach without contexts": ("any", put("reach", 1.0, RULE), "'contexts' is missing"),
    "knots that fall": ("robust", array("knots", lambda a: a[:, ::-1].copy(), RULE), "must rise together"),
    "knots too near": ("robust", array("knots", lambda a: a * 1e-58, RULE), "too near each other"),
    "one knot": ("robust", array("knots", lambda a: a[:, :1], RULE), "shape of scores"),
    "knots lost": ("robust", lose_array("knots", RULE), "'knots' is missing"),
    "knots for nothing": ("radius", give_array("knots", np.zeros((2, 2)), RULE), "unknown"),
    "a score is NaN": ("robust", array("scores", first(NAN), RULE), "scores holds"),
    "huge scores": ("robust", array("scores", lambda a: a * 1e9, RULE), "scores holds"),
    "huge factors of scores": ("robust", array("factors", lambda a: a * 1e30, RULE), "factors"),
    "a range turned": ("robust", array("low", lambda a: a + 1e6, RULE), "low must not be above high"),
    "half a range": ("robust", lose_array("high", RULE), "'high' is missing"),
    "scales of zero": ("towards knn", put("scale", [0, 1], RULE), "scale"),
    "a note in words": ("radius", put("holds_logged_contexts", "no", RULE), "holds_logged_contexts"),
    "too few ids": ("radius", put("episode_ids", ["secret"], RULE), "episodes holds"),
    "ids of ids": ("radius", put("episode_ids", [["secret"]], RULE), "episode_ids"),
    "a logged context is NaN": ("radius", array("contexts", first(NAN), RULE), "contexts holds"),
    "contexts too wide": ("radius", array("contexts", lambda a: np.c_[a, a], RULE), "shape of contexts"),
    "no contexts": ("radius", array("contexts", lambda a: a[:0], RULE), "needs logged contexts"),
    "fewer contexts": ("radius", array("contexts", lambda a: a[:-1], RULE), "shape of actions"),
    "a factor below zero": ("radius", array("factors", first(-1), RULE), "factors"),
    "an infinite factor": ("radius", array("factors", first(INF), RULE), "factors"),
    "factors of almost nothing": ("radius", array("factors", lambda a: a * 1e-200, RULE), "factors"),
    "factors too unlike": ("wide", array("factors", lambda a: np.r_[1e-40, np.full(7, 1e40)], RULE), "factors"),
    "an action too high": ("radius", array("actions", first(3), RULE), "actions holds"),
    "a step below zero": ("radius", array("steps", first(-1), RULE), "steps holds"),
    "rows in fractions": ("radius", array("rows", np.float64, RULE), "int64"),
    "an episode beyond all": ("radius", array("episodes", first(2**62), RULE), "episodes holds"),
    "contexts lost": ("radius", lose_array("contexts", RULE), "'contexts' is missing"),
    "no model where one is asked": ("likely", lose_part("behavior", RULE), "'behavior' is missing"),
    "a model where none is asked": ("any", part("behavior", "knn", at=RULE), "'behavior' in the parts is unknown"),
    "a rule as a model": ("likely", part("behavior", "radius", RULE, at=RULE), "must be a behavior model"),
    "values as a model": ("likely", part("behavior", "ridge", "values", at=RULE), "must be a behavior model"),
    "a model of other features": ("likely", part("behavior", "history", "policy", RULE), "behavior is made for 9"),
    # logged propensities
    "chances beyond one": ("likely", array("propensities", lambda a: a * 2, "eligibility/behavior"), "propensities"),
    "chances below zero": ("likely", array("propensities", first(-0.5), "eligibility/behavior"), "propensities"),
    "chances of half": ("likely", array("propensities", lambda a: a / 2, "eligibility/behavior"), "sum to 1"),
    "a chance is NaN": ("likely", array("propensities", first(NAN), "eligibility/behavior"), "propensities"),
    "fewer chances": ("likely", array("propensities", lambda a: a[1:], "eligibility/behavior"), "shape of prop"),
    "chances of two actions": (
        "likely",
        array("propensities", lambda a: np.c_[a[:, :1], 1 - a[:, :1]], f"{RULE}/behavior"),
        "2 actions",
    ),
    # tilted policies and their values
    "a temperature below zero": ("ridge", put("temperature", -1, ""), "temperature"),
    "a temperature of almost nothing": ("ridge", put("temperature", 1e-300), "temperature"),
    "a temperature beyond all numbers": ("ridge", put("temperature", 10**400), "temperature"),
    "a temperature in words": ("ridge", put("temperature", "hot"), "temperature"),
    "a history of a billion": ("ridge", put("history.steps", 10**9), "values is made for"),
    "a history of nothing": ("ridge", put("history.steps", 0), "at least 1 step"),
    "a history of text": ("ridge", put("history.steps", "2"), "history: steps"),
    "a history as a list": ("ridge", put("history", [2]), "history"),
    "a history of other actions": ("ridge", put("history.n_actions", -5), "history"),
    "no history": ("ridge", put("history", None), "values is made for"),
    "a rule as values": ("ridge", part("values", "radius", RULE), "must be values by step"),
    "values as a rule": ("ridge", part("eligibility", "ridge", "values"), "must be an eligibility rule"),
    "a policy as a rule": ("radius", part("eligibility", "any"), "must be an eligibility rule"),
    "no values": ("ridge", lose_part("values"), "'values' is missing"),
    "no steps": ("ridge", lambda forged: forged["values"].parts.clear(), "'step_0' is missing"),
    "a gap between steps": ("ridge", lose_part("step_1", "values"), "is missing"),
    "a model as a step": ("ridge", part("step_0", "knn", at="values"), "regression of a step"),
    "a step of other features": ("ridge", part("step_0", "wide", STEP, at="values"), "step_0 is not made"),
    "a ridge of scale zero": ("ridge", array("scale", first(0), STEP), "scale"),
    "a ridge of NaN": ("ridge", array("coefficients", first(NAN), STEP), "coefficients"),
    "a ridge of two actions": ("ridge", array("coefficients", lambda a: a[:2], STEP), "step_0 is not made"),
    "a ridge too narrow": ("ridge", array("coefficients", lambda a: a[:, 1:], STEP), "shape of coefficients"),
    "a ridge far away": ("ridge", array("center", first(1e200), STEP), "center"),
    "codes of feature 99": ("coded", array("columns", lambda a: a + 99, STEP), "columns"),
    "codes out of order": ("coded", array("columns", lambda a: a - np.arange(len(a)), STEP), "rising order"),
    "levels of NaN": ("coded", array("levels", first(NAN), STEP), "levels"),
    "fewer levels": ("coded", array("levels", lambda a: a[1:], STEP), "shape of levels"),
    "codes too narrow": ("coded", array("coefficients", lambda a: a[:, 1:], STEP), "shape of coefficients"),
    "codes of two actions": ("coded", array("coefficients", lambda a: a[:2], STEP), "step_0 is not made"),
    "codes of scale zero": ("coded", array("scale", first(0), STEP), "scale"),
    "codes of a billion features": ("coded", put("n_features", 10**9, STEP), "n_features"),
    "a test of feature 99": ("towards knn", array("features", first(99), STEP), "step_0 is not made"),
    "a test of feature -1": ("towards knn", array("features", first(-1), STEP), "features"),
    "a threshold of NaN": ("towards knn", array("thresholds", first(NAN), STEP), "thresholds"),
    "trees out of order": ("towards knn", array("node_offsets", np.flip, STEP), "ascend"),
    "trees that start late": ("towards knn", array("node_offsets", first(1), STEP), "ascend"),
    "leaves beyond all": ("towards knn", array("leaf_offsets", lambda a: a + 2**40, STEP), "leaf_offsets"),
    "fewer leaves": ("towards knn", array("leaf_values", lambda a: a[:-1], STEP), "leaf_offsets"),
    "tests that leave no leaf": ("towards knn", array("keeps", np.zeros_like, STEP), "leaves none"),
    "a leaf of NaN": ("towards knn", array("leaf_values", first(NAN), STEP), "leaf_values"),
    "two baselines": ("towards knn", array("baseline", lambda a: np.r_[a, a], STEP), "baseline"),
    "no baseline": ("towards knn", array("baseline", lambda a: a[:0], STEP), "baseline"),
    "a billion actions": ("towards knn", put("n_actions", 10**9, STEP), "n_actions"),
    "two actions": ("towards knn", put("n_actions", 2, STEP), "step_0 is not made"),
    # blended and sharpened policies
    "a share of two": ("blended", put("share", 2), "share"),
    "a share below zero": ("blended", put("share", -0.1), "share"),
    "a share of NaN": ("mixed", put("share", "nan"), "share"),
    "a blend in words": ("blended", put("share", "half"), "share"),
    "mixed as a number": ("mixed", put("mixed", 1), "true or false"),
    "nothing to blend": ("blended", lose_part("policy"), "'policy' is missing"),
    "a model that is blended": ("blended", part("policy", "knn"), "must be a policy"),
    "a rule that is blended": ("blended", part("policy", "radius", RULE), "must be a policy"),
    "a blend with a rule": ("blended", part("behavior", "radius", RULE), "must be a behavior model"),
    "a blend of other features": ("blended", part("policy", "wide"), "other features or actions"),
    "a blend of other actions": ("mixed", put("action_names", ["none", "low", "much"], "policy"), "other features"),
    "a blend with a model of other features": ("blended", part("behavior", "history", "policy"), "made for 9"),
    "a blend without a rule": ("blended", lose_part("eligibility"), "'eligibility' is missing"),
    "a blend with a changed rule": ("blended", put("radius", "-1.0", RULE), "radius: it must be"),
    "a blend with a changed policy": ("blended", array("mean", first(NAN), "policy"), "mean holds"),
    "a sharpness of zero": ("sharpened", put("sharpness", 0), "sharpness"),
    "a sharpness beyond all numbers": ("sharpened", put("sharpness", 10**400), "sharpness"),
    "a sharpness in words": ("sharpened", put("sharpness", "very"), "sharpness"),
    "nothing to sharpen": ("sharpened", lose_part("behavior"), "'behavior' is missing"),
    "a sharpened rule": ("sharpened", part("behavior", "radius", RULE), "must be a behavior model"),
    "a sharpened model of other features": ("sharpened", part("behavior", "history", "policy"), "made for 9"),
    "a chance to sharpen is NaN": ("sharpened", array("propensities", first(NAN), MODEL), "propensities"),
    # policies that count neighbours
    "an unknown manner": ("counted", put("departure.manner", "bold"), "manner"),
    "a limit below zero": ("counted", put("departure.limit", -1), "limit"),
    "an error in words": ("counted", put("departure.error", "small"), "error"),
    "a departure as a list": ("counted", put("departure", [3]), "departure"),
    "no departure": ("counted", lose("departure"), "'departure' is missing"),
    "nothing nearby": ("counted", lose_part("nearby"), "'nearby' is missing"),
    "nearby without a radius": ("counted", part("nearby", "any", RULE), "nearby has no radius"),
    "nearby in other features": ("counted", part("nearby", "wide", RULE), "nearby is made for 8"),
    "values nearby": ("counted", part("nearby", "ridge", "values"), "must be an eligibility rule"),
    # models of the logging policy
    "no neighbours": ("knn", put("settings.k", 0), "k: it must be"),
    "too many neighbours": ("towards knn", put("settings.k", 10**9, MODEL), "behavior: k is 1000000000"),
    "half a neighbour": ("knn", put("settings.k", 2.5), "settings: k"),
    "a code too high": ("knn", array("codes", first(3)), "codes"),
    "a code below zero": ("knn", array("codes", first(-1)), "codes"),
    "a neighbour is NaN": ("knn", array("contexts", first(NAN)), "contexts"),
    "no settings": ("knn", put("settings", []), "settings"),
    "an unknown setting of a model": ("knn", put("settings.p", 2), "'p'"),
    "a clone of other layers": ("towards clone", put("settings.hidden", [5], MODEL), "shape of layers.0.weight"),
    "a clone is NaN": ("clone", array("layers.2.bias", first(NAN)), "layers.2.bias"),
    "a clock beyond the features": ("recurrent", put("clock", 2), "clock"),
    "a clock below zero": ("recurrent", put("clock", -1), "clock"),
    "a clock as a truth": ("recurrent", put("clock", True), "clock"),
    "a clone with a clock": ("clone", put("clock", 0), "'clock'"),
    "seen falls": ("multinomial", put("seen", [2, 1, 0]), "seen"),
    "seen twice": ("multinomial", put("seen", [0, 1, 1]), "seen"),
    "seen beyond the actions": ("multinomial", put("seen", [0, 1, 3]), "seen"),
    "nothing seen": ("multinomial", put("seen", []), "seen"),
    "one less seen": ("multinomial", put("seen", [0, 1]), "shape of coefficients"),
    "a spread of zero": ("multinomial", array("spread", first(0)), "spread"),
    "a mean far away": ("multinomial", array("mean", first(1e300)), "mean"),
    "a coefficient is infinite": ("towards multinomial", array("coefficients", first(INF), MODEL), "coefficients"),
    "a tree of feature 2": ("boosted", array("features", first(2)), "features"),
    "one baseline for three": ("boosted", array("baseline", lambda a: a[:1]), "baseline"),
    "a cold model": ("tempered", put("temperature", 0), "temperature"),
    "a hot model": ("towards tempered", put("temperature", 1e9, MODEL), "temperature"),
    "a model of temperature NaN": ("tempered", put("temperature", "nan"), "temperature"),
    "a held-out share of two": ("tempered", put("held_out", 2), "held_out"),
    "a tempered rule": ("tempered", part("model", "radius", RULE), "must be a behavior model"),
    "a tempered network policy": ("tempered", part("model", "any"), "must be a behavior model"),
    "a model within a model": ("tempered", nested(30), "20 deep"),
    # policies of the history
    "a past of a billion": ("history", put("steps", 10**9), "policy is made for"),
    "a past of nothing": ("history", put("steps", 0), "at least 1 step"),
    "a past of other features": ("history", put("n_features", 3), "history"),
    "a past in words": ("history", put("initial", "no"), "history: initial"),
    "a past of a rule": ("history", part("policy", "radius", RULE), "must be a policy"),
    "a look back of a billion": ("looking back", put("history.steps", 10**9), "model is made for"),
    "a look back at nothing": ("looking back", put("history.steps", 0), "at least 1 step"),
    "a look back at other actions": ("looking back", put("history.n_actions", 7), "history"),
    "a look back in words": ("looking back", put("history", "far"), "history"),
    "a look back of a rule": ("looking back", part("model", "radius", RULE), "must be a behavior model"),
    # kinds
    "an unknown kind": ("radius", kind("os.system"), "unknown kind 'os.system'"),
    "an unknown kind of part": ("radius", kind("x" * 10**6, RULE), "unknown kind"),
    "another kind": ("radius", kind("tilted_policy"), "is missing from the settings"),
    "a kind that is no policy": ("ridge", lambda forged: forged.__dict__.update(vars(forged["values"])), "no policy"),
    "a rule alone": ("radius", lambda forged: forged.__dict__.update(vars(forged[RULE])), "no policy"),
    "an unknown part": ("radius", part("spare", "knn"), "'spare' in the parts is unknown"),
}


@pytest.mark.parametrize(("name", "edit", "words"), CASES.values(), ids=CASES.keys())
def test_a_changed_policy_is_refused_in_one_sentence(name: str, edit: Edit, words: str, tmp_path: Path) -> None:
    forged = base(name)
    edit(forged)
    forged.write(tmp_path / "policy")
    said = refusal(tmp_path / "policy")
    assert words in said
    assert "secret" not in said  # the name of an episode


@pytest.mark.parametrize("name", bases())
def test_what_nobody_changed_loads_as_it_was(name: str, tmp_path: Path) -> None:
    policy: Any = base_policies()[name]
    base(name).write(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    log = logs(n_features=loaded.n_features)
    np.testing.assert_array_equal(loaded.along(log), policy.along(log))
    check_works(loaded)


def test_the_policies_here_are_of_every_kind() -> None:
    found = [base(name) for name in bases()]
    for node in found:
        found += node.parts.values()
    assert {node.kind for node in found} == set(KINDS) - OTHERS


@pytest.mark.parametrize("kind_of_network", ["mlp", "gru"])
def test_the_shapes_of_weights_are_those_of_the_network(kind_of_network: str) -> None:
    shape = NetworkShape(kind_of_network, n_inputs=3, n_outputs=2, hidden=(5, 5))
    built = {name: tuple(tensor.shape) for name, tensor in shape.build(seed=0).state_dict().items()}
    assert shape.weight_shapes() == built


@pytest.mark.parametrize("name", ["any", "gru", "greedy", "towards clone", "clone", "recurrent"])
def test_finite_weights_that_overflow_are_refused_when_they_do(name: str, tmp_path: Path) -> None:
    forged = base(name)
    for node in (forged, *forged.parts.values()):
        for weights in node.arrays.values():
            if weights.dtype == np.float32 and weights.ndim == 2:
                weights[:] = np.float32(3e38) * np.where(np.arange(weights.size).reshape(weights.shape) % 2, 1, -1)
    forged.write(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    with pytest.raises(InputError, match="overflows"):
        check_works(policy)


def test_models_of_a_study_are_checked_as_policies_are(tmp_path: Path) -> None:
    base("knn").write(tmp_path / "good", file_format=BEHAVIOR_FORMAT)
    check_works(read_behavior(tmp_path / "good"))
    model = base("knn")
    model.settings["settings"]["k"] = 10**9
    model.write(tmp_path / "changed", file_format=BEHAVIOR_FORMAT)
    base("radius")[RULE].write(tmp_path / "rule", file_format=BEHAVIOR_FORMAT)
    for name, words in (("changed", "k is 1000000000"), ("rule", "no policy")):
        with pytest.raises(InputError, match=words):
            read_behavior(tmp_path / name)


def test_a_stored_object_is_checked_without_a_file_too() -> None:
    with pytest.raises(InputError, match="'settings' is missing"):
        load_object(Stored("knn_behavior", {"feature_names": []}))
    with pytest.raises(InputError, match=UNFORESEEN):
        load_object(Stored(kind=[]))  # type: ignore[arg-type]


def changed(stored: Stored, change: Callable[[NDArray[Any]], NDArray[Any]], path: tuple[str, ...]) -> Stored:
    """The same, but for one array, which is within parts."""
    if len(path) == 1:
        return replace(stored, arrays={**stored.arrays, path[0]: change(stored.arrays[path[0]])})
    inner = changed(stored.parts[path[0]], change, path[1:])
    return replace(stored, parts={**stored.parts, path[0]: inner})


def arrays_in(stored: Stored) -> list[tuple[str, ...]]:
    within = [(name, *path) for name, part in stored.parts.items() for path in arrays_in(part)]
    return [*((name,) for name in stored.arrays), *within]


def kinds_in(stored: Stored) -> set[str]:
    return {stored.kind}.union(*map(kinds_in, stored.parts.values()))


def test_arrays_of_real_valued_policies() -> None:
    train = simulate("dosing", episodes=40, seed=0)
    stored = ContinuousPOELA(radius="q100", hidden=(4,), steps=2).fit(train, seed=0).stored()
    assert kinds_in(stored) == OTHERS - {
        "logged_propensities",
        "support_model",
        "supported_behavior",
        "foreign_policy",
        "foreign_doses",
    }
    load_object(stored)
    for path in arrays_in(stored):
        for change in (lambda values: values * np.nan, lambda values: values[:0], lambda values: values.astype("U8")):
            with pytest.raises(InputError):
                load_object(changed(stored, change, path))


@pytest.mark.parametrize("wrong", [0, -1, "2", None, 2.5])
def test_sizes_of_logged_propensities(wrong: Any) -> None:
    with pytest.raises(InputError, match="n_actions"):
        load_object(Stored("logged_propensities", {"n_features": 2, "n_actions": wrong}))
