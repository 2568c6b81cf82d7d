"""Words and their numbers."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

__all__ = ["BEGIN", "END", "PAD", "UNKNOWN", "Vocabulary", "words_of"]

PAD, UNKNOWN, BEGIN, END = range(4)
"""Numbers that are no words: what fills up a batch, words that aren't in the vocabulary, a sentence's ends."""
_MARKS = ("<pad>", "<unk>", "<begin>", "<end>")
_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def words_of(sentence: str) -> list[str]:
    """Lower case words, with apostrophes inside of them, and each punctuation mark by itself."""
    return _WORD.findall(sentence.lower())


class Vocabulary:
    """The words that training sentences have at least ``least`` times, the most frequent first."""

    def __init__(self, sentences: Iterable[Sequence[str]], least: int = 2):
        counts = Counter(word for sentence in sentences for word in sentence)
        kept = sorted((word for word, count in counts.items() if count >= least), key=lambda w: (-counts[w], w))
        self._words = [*_MARKS, *kept]
        self._numbers = {word: number for number, word in enumerate(self._words) if number >= len(_MARKS)}

    def __len__(self) -> int:
        return len(self._words)

    def encode(self, sentence: Sequence[str]) -> list[int]:
        """Numbers of a sentence's words, between BEGIN and END."""
        return [BEGIN, *(self._numbers.get(word, UNKNOWN) for word in sentence), END]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """Words up to END, without BEGIN and PAD."""
        words = []
        for number in numbers:
            if number == END:
                break
            if number not in (PAD, BEGIN):
                words.append(self._words[number])
        return words
