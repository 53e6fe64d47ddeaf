"""The CartPole tables: test SNTIS (200 steps = 100), 5% and 95% BCa bounds, effective sample size."""

from poela.experiments.published.records import WITH_NO_PENALTY, PublishedTable, published_table

COLUMNS = (*WITH_NO_PENALTY, "logging policy")
ESTIMATED = "estimated"  # the tables say PO-μ̂; the paper does not say by which model

CARTPOLE: tuple[PublishedTable, ...] = (
    published_table(
        "tab:cartpole_results",
        "CartPole, final policy",
        COLUMNS,
        {
            ("Markov", "SNTIS"): "88.29 86.62 78.79 72.63 21.28 23.61 41.41",
            ("Markov", "upper bound"): "89.70 89.81 83.87 76.77 24.63 27.14 45.04",
            ("Markov", "lower bound"): "85.93 85.57 69.64 68.15 16.22 20.36 38.16",
            ("Markov", "ESS"): "43.32 40.78 30.51 30.13 30.11 30.08 248",
        },
        behavior=ESTIMATED,
    ),
    published_table(
        "tab:cartpole_pomdp_results",
        "CartPole without angular velocity, final policy",
        COLUMNS,
        {
            ("non-Markov", "SNTIS"): "76.18 72.21 68.39 67.14 12.13 5.46 41.41",
            ("non-Markov", "upper bound"): "89.27 88.32 80.22 83.72 12.89 6.63 45.04",
            ("non-Markov", "lower bound"): "68.97 67.49 57.13 57.78 9.17 5.02 38.16",
            ("non-Markov", "ESS"): "36.41 34.72 34.56 31.87 31.22 30.07 248",
        },
        behavior=ESTIMATED,
    ),
    published_table(
        "tab:cartpole_results_checkpoint",
        "CartPole, best checkpoint",
        COLUMNS,
        {
            ("Markov", "SNTIS"): "88.43 87.56 76.01 82.25 17.74 17.83 41.41",
            ("Markov", "upper bound"): "90.46 90.72 82.87 86.18 21.80 21.84 45.04",
            ("Markov", "lower bound"): "85.48 84.63 66.21 74.30 12.84 13.26 38.16",
            ("Markov", "ESS"): "43.32 39.66 31.04 30.87 30.29 30.18 248",
        },
        protocol="best",
        behavior=ESTIMATED,
    ),
    published_table(
        "tab:cartpole_pomdp_results_checkpoint",
        "CartPole without angular velocity, best checkpoint",
        COLUMNS,
        {
            ("non-Markov", "SNTIS"): "75.76 75.70 68.66 66.34 11.73 5.70 41.41",
            ("non-Markov", "upper bound"): "92.35 89.16 79.56 82.46 12.49 6.71 45.04",
            ("non-Markov", "lower bound"): "68.34 66.08 55.49 57.50 7.98 5.08 38.16",
            ("non-Markov", "ESS"): "37.72 35.27 35.15 36.02 30.12 31.77 248",
        },
        protocol="best",
        behavior=ESTIMATED,
    ),
)
