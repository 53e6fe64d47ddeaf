"""Readers of MIMIC-III sepsis cohorts, on small synthetic files of exactly the three layouts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from poela.core.errors import InputError
from poela.data.cohorts import FEATURES, LOGARITHMIC, NORMAL, VARIABLES, read_mimic_sepsis

MIMICTABLE = (
    "bloc icustayid charttime gender age elixhauser re_admission died_in_hosp died_within_48h_of_out_time "
    "mortality_90d delay_end_of_record_and_discharge_or_death Weight_kg GCS HR SysBP MeanBP DiaBP RR SpO2 Temp_C "
    "FiO2_1 Potassium Sodium Chloride Glucose BUN Creatinine Magnesium Calcium Ionised_Ca CO2_mEqL SGOT SGPT "
    "Total_bili Albumin Hb WBC_count Platelets_count PTT PT INR Arterial_pH paO2 paCO2 Arterial_BE Arterial_lactate "
    "HCO3 mechvent Shock_Index PaO2_FiO2 median_dose_vaso max_dose_vaso input_total input_4hourly output_total "
    "output_4hourly cumulated_balance SOFA SIRS"
)
PUBLISHED_FEATURES = (
    "gender re_admission mechvent age Weight_kg GCS HR SysBP MeanBP DiaBP RR Temp_C FiO2_1 Potassium Sodium Chloride "
    "Glucose Magnesium Calcium Hb WBC_count Platelets_count PTT PT Arterial_pH paO2 paCO2 Arterial_BE Arterial_lactate "
    "HCO3 Shock_Index PaO2_FiO2 cumulated_balance SOFA SIRS SpO2 BUN Creatinine SGOT SGPT Total_bili INR output_total "
    "output_4hourly"
)
LENGTHS = (3, 1, 5, 2, 4)


@pytest.fixture
def raw() -> pd.DataFrame:
    """A MIMICtable of five stays."""
    rng = np.random.default_rng(0)
    rows = sum(LENGTHS)
    frame = pd.DataFrame({name: rng.lognormal(size=rows) for name in MIMICTABLE.split()})
    frame["icustayid"] = np.repeat([200_003, 200_001, 200_010, 200_002, 200_007], LENGTHS)
    frame["bloc"] = np.concatenate([np.arange(1, length + 1) for length in LENGTHS])
    for name in ("gender", "re_admission", "mechvent"):
        frame[name] = rng.integers(2, size=rows)
    frame["mortality_90d"] = np.repeat([0, 1, 0, 1, 0], LENGTHS)
    frame["died_within_48h_of_out_time"] = np.repeat([0, 1, 0, 0, 0], LENGTHS)
    for name in ("max_dose_vaso", "input_4hourly"):
        frame.loc[rng.random(rows) < 0.4, name] = 0.0
    assert frame.shape[1] == 59
    return frame


def standardised(frame: pd.DataFrame) -> pd.DataFrame:
    """All 47 variables as both later layouts hold them, by pandas."""
    result = frame[list(VARIABLES)].astype(float)
    for name in ("gender", "mechvent", "re_admission"):
        result[name] = frame[name] - 0.5
    result["max_dose_vaso"] = np.log(frame["max_dose_vaso"] + 0.1)
    for name in NORMAL:
        result[name] = (frame[name] - frame[name].mean()) / frame[name].std()
    for name in LOGARITHMIC:
        logarithm = np.log(frame[name] + 0.1)
        result[name] = (logarithm - logarithm.mean()) / logarithm.std()
    return result


def quartiles(doses: "pd.Series[float]") -> "pd.Series[int]":
    """The action bins as the AI Clinician's programme has them: floor((rank / n + 0.2499999999) · 4)."""
    given = doses[doses > 0]
    bins = ((given.rank() / len(given) + 0.2499999999) * 4).astype(int)
    return bins.reindex(doses.index, fill_value=0)


def published(frame: pd.DataFrame, mixed_up: bool = True) -> pd.DataFrame:
    """The authors' file of 48 columns, with or without its mistake."""
    values = standardised(frame)
    columns = {name: values[name] for name in PUBLISHED_FEATURES.split()}
    if mixed_up:
        columns["re_admission"] = values["mechvent"]
        columns["mechvent"] = values["max_dose_vaso"]
        columns["Total_bili"] = values["input_total"]
        columns["INR"] = values["input_4hourly"]
    action = 1 + 5 * quartiles(frame["input_4hourly"]) + quartiles(frame["max_dose_vaso"])
    head = {"id": frame["icustayid"], "step": frame["bloc"]}
    result = pd.DataFrame({**head, **columns, "action": action, "outcome_if_died": frame["mortality_90d"]})
    assert result.shape[1] == 48
    return result


def microsoft(frame: pd.DataFrame, process: bool = True) -> pd.DataFrame:
    values = standardised(frame) if process else frame
    last = frame["icustayid"] != frame["icustayid"].shift(-1)
    meta = {f"m:{name}": np.arange(len(frame)) for name in ("presumed_onset", "charttime", "icustayid")}
    return pd.DataFrame(
        {
            "traj": (frame["bloc"] == 1).cumsum(),
            "step": frame["bloc"] - 1,
            **meta,
            **{f"o:{name}": values[name] for name in VARIABLES},
            "a:action": 5 * quartiles(frame["input_4hourly"]) + quartiles(frame["max_dose_vaso"]),
            "r:reward": np.where(last, 1 - 2 * frame["died_within_48h_of_out_time"], 0).astype(float),
        }
    )


def written(tmp_path: Path, frame: pd.DataFrame) -> Path:
    path = tmp_path / "cohort.csv"
    frame.to_csv(path, index=False)
    return path


def by_stay(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(["icustayid", "bloc"])


def test_the_44_features_are_those_of_the_published_file() -> None:
    assert sorted(FEATURES) == sorted(PUBLISHED_FEATURES.split())
    assert set(FEATURES) < set(MIMICTABLE.split())


def test_raw_table(tmp_path: Path, raw: pd.DataFrame) -> None:
    shuffled = raw.sample(frac=1, random_state=1)
    logs = read_mimic_sepsis(written(tmp_path, shuffled))
    assert logs.feature_names == FEATURES
    assert logs.n_actions == 25
    assert logs.propensities is None
    assert logs.episode_ids is not None
    assert logs.episode_ids.tolist() == [200_001, 200_002, 200_003, 200_007, 200_010]
    assert logs.lengths.tolist() == [1, 2, 3, 4, 5]
    assert logs.returns().tolist() == [0, 0, 100, 100, 100]
    assert (logs.rewards[np.setdiff1d(np.arange(15), logs.offsets[1:] - 1)] == 0).all()
    expected = by_stay(standardised(raw).assign(icustayid=raw["icustayid"], bloc=raw["bloc"]))
    np.testing.assert_allclose(logs.contexts, expected[list(FEATURES)], rtol=1e-5, atol=1e-6)
    sorted_raw = by_stay(raw)
    bins = 5 * quartiles(raw["input_4hourly"]) + quartiles(raw["max_dose_vaso"])
    assert logs.actions.tolist() == bins.loc[sorted_raw.index].tolist()


def test_doses_with_ties_share_a_quartile(tmp_path: Path, raw: pd.DataFrame) -> None:
    raw["input_4hourly"] = [0, 0, 10, 10, 10, 10, 10, 20, 20, 30, 40, 50, 50, 60, 0]
    raw["max_dose_vaso"] = 0.0
    logs = read_mimic_sepsis(written(tmp_path, raw))
    expected = 5 * quartiles(raw["input_4hourly"].astype(float)).loc[by_stay(raw).index]
    assert logs.actions.tolist() == expected.tolist()
    assert set(logs.actions.tolist()) <= {0, 5, 10, 15, 20}


def test_published_file_is_refused(tmp_path: Path, raw: pd.DataFrame) -> None:
    path = written(tmp_path, published(raw))
    with pytest.raises(InputError, match=r"'mechvent' is neither −0.5 nor 0.5 in 15 rows.*as_published=True"):
        read_mimic_sepsis(path)


def test_published_file_as_published_names_what_it_holds(tmp_path: Path, raw: pd.DataFrame) -> None:
    logs = read_mimic_sepsis(written(tmp_path, published(raw)), as_published=True)
    assert logs.n_features == 44
    assert set(FEATURES) - set(logs.feature_names) == {"re_admission", "Total_bili", "INR"}
    expected = standardised(raw).loc[by_stay(raw).index, list(logs.feature_names)]
    np.testing.assert_allclose(logs.contexts, expected, rtol=1e-5, atol=1e-6)
    assert logs.returns().tolist() == [0, 0, 100, 100, 100]


@pytest.mark.parametrize("outcome", ["outcome_if_died", "outcome"])
def test_the_same_file_put_right_agrees_with_the_raw_table(tmp_path: Path, raw: pd.DataFrame, outcome: str) -> None:
    right = published(raw, mixed_up=False).rename(columns={"outcome_if_died": outcome})
    logs = read_mimic_sepsis(written(tmp_path, right))
    same = read_mimic_sepsis(raw)
    np.testing.assert_array_equal(logs.actions, same.actions)
    np.testing.assert_array_equal(logs.rewards, same.rewards)
    np.testing.assert_allclose(logs.contexts, same.contexts, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("process", [True, False])
def test_microsoft_table_without_its_doses(tmp_path: Path, raw: pd.DataFrame, process: bool) -> None:
    logs = read_mimic_sepsis(written(tmp_path, microsoft(raw, process)))
    assert logs.feature_names == FEATURES
    assert logs.lengths.tolist() == list(LENGTHS)
    assert logs.returns().tolist() == [1, -1, 1, 1, 1]
    np.testing.assert_allclose(logs.contexts, standardised(raw)[list(FEATURES)], rtol=1e-5, atol=1e-6)
    assert logs.actions.max() > 4


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"HR": np.nan}, "'HR' is null, NaN or infinite"),
        ({"HR": "high"}, "'HR' is text, not a number, in 1 row, first row 5"),
        ({"input_4hourly": -1.0}, "'input_4hourly' is negative in 1 row, first row 5"),
        ({"max_dose_vaso": np.nan}, "'max_dose_vaso' is null, NaN or infinite in 1 row, first row 5"),
        ({"BUN": -0.2}, "'BUN' is −0.1 or less"),
        ({"gender": 2}, "'gender' is neither 0 nor 1"),
        ({"mortality_90d": 0.5}, "'mortality_90d' is not a whole number from 0 to 1"),
        ({"bloc": 2}, "'bloc'"),
        ({"icustayid": None}, "'icustayid' is null"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, raw: pd.DataFrame, changes: Mapping[str, Any], problem: str) -> None:
    for name, value in changes.items():
        raw[name] = raw[name].astype(object)
        raw.loc[4, name] = value
    with pytest.raises(InputError) as caught:
        read_mimic_sepsis(written(tmp_path, raw))
    assert len(caught.value.problems) == 1
    assert problem in caught.value.problems[0]


def test_all_problems_come_at_once(tmp_path: Path, raw: pd.DataFrame) -> None:
    raw.loc[2, "input_4hourly"] = -1
    raw.loc[3, "SOFA"] = np.nan
    raw.loc[7, "bloc"] = 1
    with pytest.raises(InputError) as caught:
        read_mimic_sepsis(written(tmp_path, raw))
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("action", [0, 26, 1.5])
def test_actions_out_of_range(tmp_path: Path, raw: pd.DataFrame, action: float) -> None:
    frame = published(raw, mixed_up=False)
    frame["action"] = frame["action"].astype(float)
    frame.loc[0, "action"] = action
    with pytest.raises(InputError, match="'action' is not a whole number from 1 to 25 in 1 row, first row 1"):
        read_mimic_sepsis(written(tmp_path, frame))


def test_layouts_that_do_not_fit(tmp_path: Path, raw: pd.DataFrame) -> None:
    path = written(tmp_path, raw)
    with pytest.raises(InputError, match="layout 'csv' is unknown"):
        read_mimic_sepsis(path, layout="csv")
    with pytest.raises(InputError, match=r"for the layout mimic_sepsis it lacks 'traj'"):
        read_mimic_sepsis(path, layout="mimic_sepsis")
    with pytest.raises(InputError, match="as_published=True is about the layout MIMIC_outcome"):
        read_mimic_sepsis(path, as_published=True)
    with pytest.raises(InputError, match="no known sepsis cohort: for the layout MIMICtable it lacks 'SOFA', 'SIRS'"):
        read_mimic_sepsis(written(tmp_path, raw.drop(columns=["SOFA", "SIRS"])))
    with pytest.raises(InputError, match="does not exist"):
        read_mimic_sepsis(tmp_path / "nothing.csv")
