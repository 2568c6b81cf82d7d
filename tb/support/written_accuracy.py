"""Results of an accuracy bench, of regimes whose answers are known."""

import json

from adagp.evaluation.report.accuracy.findings import Findings

__all__ = ["COSTS", "EXAMPLES", "REGIME", "TESTS", "written"]

TESTS = {"bp-1": (90, 91, 92), "bp-0.4": (80, 81, 82), "ada-gp": (85, 86, 87.5), "skip": (86, 87.5, 88),
         "ada-gp-1:1": (88, 89, 90), "random-1:1": (88, 90, 89),
         "ada-gp-2:1": (82, 83, 84), "skip-2:1": (81, 82, 83.5)}  # fmt: skip
COSTS = {"bp-1": 1.0, "bp-0.4": 0.4, "ada-gp": 0.7, "skip": 0.45, "ada-gp-1:1": 0.75, "random-1:1": 0.75,
         "ada-gp-2:1": 0.6, "skip-2:1": 0.5}  # fmt: skip
BATCHES = {method: {"warmup": 40, "bp": 20, "gp": 20 if "bp" not in method else 0} for method in TESTS}
ABOVE = {"ada-gp": (0.17, 0.17), "skip": (5.3, 0.2), "ada-gp-1:1": (2.8, 0.0), "random-1:1": (-2.8, 0.6),
         "skip-2:1": (0.5, 0.1)}  # fmt: skip


REGIME = {"model": "small-cnn", "data": "digits", "image_size": 8, "images": 1000, "epochs": 3, "batch_size": 64,
          "torch": "2", "preset": "ecp5", "device": "cpu"}  # fmt: skip
EXAMPLES = {"train": 1000, "validation": 144, "test": 360}


def written(folder, regimes=("one", "two")):
    """Results of regimes that are all alike."""
    results = {"figures": {}, "details": {}, "provenance": {}}
    for regime in regimes:
        figures = {}
        for method, tests in TESTS.items():
            figures |= {f"accuracy_{regime}_{method}": sum(tests) / 3, f"sd_{regime}_{method}": 1.0,
                        f"cost_{regime}_{method}": COSTS[method]}  # fmt: skip
            if method in ABOVE:
                figures |= dict(zip((f"above_{regime}_{method}", f"error_{regime}_{method}"), ABOVE[method],
                                    strict=True))  # fmt: skip
        quality = {"0.weight": {"mape": 3.0, "mse": 1e-5, "cosine": 0.01, "sign_agreement": 0.5, "norm_ratio": None,
                                "cosine_end": 0.02,
                                "zeros": 0.0}}  # fmt: skip
        methods = {
            method: {"chosen": {"lr": 0.05, "validation": 90.0, "at_edge": method == "skip", "tried": 4}, "tuning": [],
                     "runs": [{"seed": seed, "test": test, "batches": BATCHES[method],
                               "whole": 1234 * 10**9 if method == "bp-1" else 1}
                              for seed, test in enumerate(tests)],
                     "quality": quality if method == "ada-gp-1:1" else {}}
            for method, tests in TESTS.items()
        }  # fmt: skip
        details = {"regime": REGIME, "methods": methods, "examples": EXAMPLES,
                   "by_cycles": {"ada-gp": {"cost": 0.66, "above": 1.5, "error": 0.25}}}  # fmt: skip
        results["figures"] |= figures
        results["details"][regime] = {"figures": sorted(figures), "details": details}
        results["provenance"][regime] = {
            "commit": "0" * 40, "hardware": "none", "command": "make it", "config": "ecp5", "clock_hz": 100e6,
            "memory_part": "dram", "seed": [0], "tools": {"torch": "2"},
        }  # fmt: skip
    (folder / "accuracy.json").write_text(json.dumps(results))
    return Findings.read(folder / "accuracy.json")
