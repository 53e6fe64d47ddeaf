"""The figure of appendix A: episodes needed to solve examples 2 and 3 with two actions, by H."""

from poela.experiments.published.records import PublishedTable, published_table

METHODS = ("IS + CRM", "SNIS + CRM", "eligible actions")
SAMPLES = "episodes needed"

COUNTEREXAMPLES: PublishedTable = published_table(
    "fig:overfitting_example_result",
    "Episodes needed to solve the counter-examples, by H",
    METHODS,
    {
        ("H = 2", SAMPLES): "32 32 16",
        ("H = 3", SAMPLES): "128 128 16",
        ("H = 4", SAMPLES): "256 256 16",
        ("H = 5", SAMPLES): "512 512 16",
        ("H = 6", SAMPLES): "1024 1024 16",
        ("H = 7", SAMPLES): "2048 2048 16",
        ("H = 8", SAMPLES): "4096 4096 16",
    },
    exact=True,
)
