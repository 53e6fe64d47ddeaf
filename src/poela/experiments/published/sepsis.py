"""The sepsis tables (MIMIC-III): test SNTIS, 5% and 95% BCa bounds, effective sample size."""

from poela.experiments.published.records import WITH_NO_PENALTY, PublishedTable, published_table

COLUMNS = (*WITH_NO_PENALTY, "clinicians")

SEPSIS: tuple[PublishedTable, ...] = (
    published_table(
        "tab:sepsis_result_main",
        "Sepsis, behavior by kNN, final policy",
        COLUMNS,
        {
            ("", "SNTIS"): "92.32 90.87 90.21 86.89 25.62 27.04 81.10",
            ("", "upper bound"): "95.83 92.94 93.27 89.68 41.93 42.45 82.19",
            ("", "lower bound"): "90.91 87.22 87.19 83.50 7.93 13.43 79.80",
            ("", "ESS"): "437.03 396.71 297.84 289.10 206.63 217.54 2995",
        },
        behavior="kNN",
    ),
    published_table(
        "tab:sepsis_result_bc",
        "Sepsis, behavior by BC, final policy",
        WITH_NO_PENALTY,
        {
            ("", "SNTIS"): "86.42 85.26 84.39 79.71 32.83 34.69",
            ("", "upper bound"): "91.68 90.32 87.74 89.33 53.50 52.15",
            ("", "lower bound"): "79.71 77.15 80.01 65.01 11.87 17.60",
            ("", "ESS"): "310.23 287.39 244.97 224.92 207.12 223.03",
        },
        behavior="BC",
    ),
    published_table(
        "tab:sepsis_result_bcrnn",
        "Sepsis, behavior by BCRNN, final policy",
        WITH_NO_PENALTY,
        {
            ("", "SNTIS"): "88.83 88.31 87.97 85.33 33.21 41.66",
            ("", "upper bound"): "93.23 94.04 91.17 89.44 63.17 57.99",
            ("", "lower bound"): "83.43 80.02 82.00 78.43 12.23 14.76",
            ("", "ESS"): "379.18 265.36 220.74 236.78 203.89 224.33",
        },
        behavior="BCRNN",
    ),
    published_table(
        "tab:sepsis_result_checkpoint",
        "Sepsis, behavior by kNN, best checkpoint",
        COLUMNS,
        {
            ("", "SNTIS"): "91.46 90.82 87.95 87.71 82.67 84.40 81.10",
            ("", "upper bound"): "93.24 92.61 90.58 90.04 86.83 88.29 82.19",
            ("", "lower bound"): "89.59 88.68 84.77 84.90 78.25 80.13 79.80",
            ("", "ESS"): "624.92 586.37 372.00 399.59 228.82 231.93 2995",
        },
        protocol="best",
        behavior="kNN",
    ),
    published_table(
        "tab:sepsis_result_bc_checkpoint",
        "Sepsis, behavior by BC, best checkpoint",
        COLUMNS,
        {
            ("", "SNTIS"): "85.01 89.62 84.70 85.53 83.17 84.16 81.10",
            ("", "upper bound"): "88.61 92.75 88.56 87.80 92.88 88.04 82.19",
            ("", "lower bound"): "80.55 85.57 80.15 83.23 63.98 79.98 79.80",
            ("", "ESS"): "227.92 214.12 228.97 354.86 208.92 209.72 2995",
        },
        protocol="best",
        behavior="BC",
    ),
    published_table(
        "tab:sepsis_result_bcrnn_checkpoint",
        "Sepsis, behavior by BCRNN, best checkpoint",
        COLUMNS,
        {
            ("", "SNTIS"): "88.34 90.89 87.98 85.12 83.20 85.06 81.10",
            ("", "upper bound"): "91.65 93.78 91.06 92.75 91.56 89.12 82.19",
            ("", "lower bound"): "83.94 87.05 84.41 72.96 66.27 79.76 79.80",
            ("", "ESS"): "201.49 220.86 285.82 211.20 206.11 212.36 2995",
        },
        protocol="best",
        behavior="BCRNN",
    ),
    published_table(
        "tab:sepsis_noess_result",
        "Sepsis, without a least effective sample size",
        WITH_NO_PENALTY,
        {
            ("", "SNTIS"): "87.63 86.29 82.36 82.36 83.28 96.32",
            ("", "lower bound"): "85.06 83.51 64.92 63.48 56.65 57.25",
            ("", "upper bound"): "90.00 88.59 94.22 93.62 100 100",
            ("", "ESS"): "528.18 491.71 21.23 21.23 9.04 1.27",
        },
        behavior="kNN",
    ),
)

RADII = ("0.4", "0.6", "0.8", "1.0")

DELTA_STUDY = published_table(
    "tab:sepsis_delta_study",
    "Sepsis, behavior by kNN: POELA by its radius",
    RADII,
    {
        ("", "training SNTIS"): "91.62 98.41 98.9 99.12",
        ("", "training ESS"): "3601.12 2242.07 1993.08 1769.46",
        ("", "test SNTIS"): "86.62 90.07 91.46 90.23",
        ("", "test ESS"): "1278.08 819.64 624.92 542.53",
    },
    protocol="best",
    behavior="kNN",
)
