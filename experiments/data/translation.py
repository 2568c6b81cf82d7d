"""Multi30k: sentences about pictures in two languages, one a line."""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ...host.training.data import DataError
from .batches import Draw
from .splits import Splits, needed_folder
from .vocabulary import PAD, Vocabulary, words_of

__all__ = ["SentencePairs", "multi30k"]

URL = "https://github.com/multi30k/dataset (data/task1/raw)"
PARTS = ("train", "val", "test_2016_flickr")


@dataclass(frozen=True)
class SentencePairs:
    """Sentences of a source language and their translations, as words."""

    source: list[list[str]]
    target: list[list[str]]
    source_words: Vocabulary
    target_words: Vocabulary

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, indexes: np.ndarray, draw: Draw) -> tuple[Tensor, Tensor]:
        """Numbers of words [N, S] and [N, T], from BEGIN to END, filled up with PAD."""
        pairs = ((self.source, self.source_words), (self.target, self.target_words))
        source, target = (
            pad_sequence([torch.tensor(words.encode(sentences[i])) for i in indexes], True, PAD)
            for sentences, words in pairs
        )
        return source, target


def _read(folder: Path, part: str, language: str) -> list[list[str]]:
    plain = folder / f"{part}.{language}"
    path = plain if plain.is_file() else folder / f"{plain.name}.gz"
    if not path.is_file():
        raise DataError(f"multi30k: {folder} holds neither {plain.name} nor {path.name}, of {URL}")
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = raw.decode("utf-8").removesuffix("\n").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"can't read {path}: {error}; it is published at {URL}") from None
    sentences = [words_of(line) for line in lines]
    if empty := [number for number, sentence in enumerate(sentences, 1) if not sentence]:
        raise DataError(f"can't read {path}: line {empty[0]} is empty")
    return sentences


def multi30k(folder: Path | None, *, source: str = "de", target: str = "en", least: int = 2) -> Splits:
    """29,000 pairs of sentences to train with, 1,014 to validate, 1,000 (of 2016, from Flickr) to test.

    ``source``, ``target``: languages, suffixes of the files, which may be compressed (.gz); ``least``: times that a
    word must be in the training sentences to be in the vocabulary.
    """
    files = ", ".join(f"{part}.{source}, {part}.{target}" for part in PARTS) + " (or these with .gz)"
    folder = needed_folder("multi30k", folder, files, URL)
    parts = {part: (_read(folder, part, source), _read(folder, part, target)) for part in PARTS}
    for part, (given, wanted) in parts.items():
        if len(given) != len(wanted):
            raise DataError(f"multi30k: {len(given)} lines in {part}.{source}, and {len(wanted)} in {part}.{target}")
    source_words, target_words = (Vocabulary(sentences, least) for sentences in parts["train"])
    train, validation, test = (SentencePairs(*parts[part], source_words, target_words) for part in PARTS)
    return Splits("multi30k", train, validation, test, len(target_words))
