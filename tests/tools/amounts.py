# SPDX-License-Identifier: BSL-1.0
"""Budgets and parts as people write them, and what they mean: for the commands and for the Python package alike."""

# Of a baseline of 100 bytes. None: refused.
BUDGETS = {
    "8GiB": 8 << 30, "8gib": 8 << 30, "8 gb": 8 * 10**9, "8G": 8 * 10**9, "8g": 8 * 10**9, "8Gi": 8 << 30, "2b": 2,
    "1B": 1, "1.5MB": 1_500_000, "0.5kB": 500, "0.5KiB": 512, "512mib": 512 << 20, "1e3k": 10**6, "3TB": 3 * 10**12,
    "1e9": 10**9, "1E9": 10**9, "1000000000.0": 10**9, "1000": 1000, "2": 2, "2.0": 2, "2.5": 2, "100": 100,
    "0.5": 50, ".5": 50, "50%": 50, " 50 % ": 50, "1.0": 100, "1.": 100, "100%": 100, "100.0%": 100, "0.75 ": 75,
    "1": None, "1 ": None, "01": None, "0": None, "0.0": None, "0%": None, "1.5": None, "1.9": None, "5e-1": None,
    "1e-1": None, "101%": None, "1e308%": None, "1e308 %": None, "0.5B": None, "-1": None, "-0.5": None, "+1": None,
    "nan": None, "inf": None, "1e999": None, "": None, "half": None, "0,5": None, "1,5GB": None, "12QB": None,
    "512 MiB x": None, "MiB": None, "%": None, "0x10": None, "0.5 0.5": None, "50%%": None, "5 percent": None,
    "1.2.3": None, "m": None, "8 G iB": None,
}
# Of a whole. None: refused, since it could mean either, or is none.
PARTS = {
    "5%": 0.05, "5 %": 0.05, " 5% ": 0.05, "0.05": 0.05, ".05": 0.05, "5e-2": 0.05, "150%": 1.5, "100%": 1.0,
    "0": 0.0, "0%": 0.0, "0.0": 0.0, "0.999": 0.999,
    "1": None, "1.0": None, "1.5": None, "2": None, "5": None, "5.0": None, "1e9": None, "-0.1": None, "-1%": None,
    "-0": None, "nan": None, "inf": None, "5%%": None, "%": None, "5 percent": None, "": None, "x": None, "5MB": None,
    "0,05": None,
}
