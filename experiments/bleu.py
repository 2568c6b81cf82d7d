"""BLEU of a corpus: geometric mean of the precisions of 1 to 4 words in a row, less a penalty for brevity."""

import math
from collections import Counter
from collections.abc import Sequence

__all__ = ["bleu"]


def _runs(words: Sequence[str], length: int) -> Counter:
    return Counter(tuple(words[i : i + length]) for i in range(len(words) - length + 1))


def bleu(translations: Sequence[Sequence[str]], references: Sequence[Sequence[str]], longest: int = 4) -> float:
    """From 0 to 100, of tokenised sentences with one reference each; not smoothed, so 0 if no run of ``longest`` fits.

    Raises ValueError unless there are as many references as translations.
    """
    if len(translations) != len(references):
        raise ValueError(f"{len(translations)} translations, and {len(references)} references")
    right, all_runs = [0] * longest, [0] * longest
    for translation, reference in zip(translations, references, strict=True):
        for length in range(1, longest + 1):
            runs = _runs(translation, length)
            right[length - 1] += (runs & _runs(reference, length)).total()
            all_runs[length - 1] += runs.total()
    if not all(right):
        return 0.0
    precision = math.exp(sum(math.log(a / b) for a, b in zip(right, all_runs, strict=True)) / longest)
    given, wanted = sum(map(len, translations)), sum(map(len, references))
    return 100 * precision * min(1.0, math.exp(1 - wanted / given))
