"""Every published table by its label."""

from poela.experiments.published.cartpole import CARTPOLE
from poela.experiments.published.counterexamples import COUNTEREXAMPLES
from poela.experiments.published.records import PublishedTable
from poela.experiments.published.sepsis import DELTA_STUDY, SEPSIS
from poela.experiments.published.tumor import TUMOR, WEIGHTS

PUBLISHED: dict[str, PublishedTable] = {
    table.label: table for table in (*TUMOR, *WEIGHTS, *SEPSIS, DELTA_STUDY, *CARTPOLE, COUNTEREXAMPLES)
}
