"""The Transformer for translation: three layers on each side (paper, section 6.4).

The paper says no more about it. Sizes are those usual for Multi30k: width 512, 8 heads, feed-forward 512, dropout 0.1,
layer norm behind each part and at the end of both sides. Embeddings and output layer are three weights, none tied, as
both languages have vocabularies of their own and a tied output layer would not have an outputs' weight to itself.

Shapes: N sentences, S and T words of source and target.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.vocabulary import BEGIN, END, PAD

__all__ = ["TranslationTransformer", "translation_loss"]


class TranslationTransformer(nn.Module):
    """Words of a target language from words of a source, by attention.

    ``longest``: words that a sentence may have, its marks counted.
    """

    places: Tensor

    def __init__(
        self, source_words: int, target_words: int, width: int = 512, heads: int = 8, hidden: int = 512,
        layers: int = 3, dropout: float = 0.1, longest: int = 256,
    ):  # fmt: skip
        super().__init__()
        self.width = width
        self.source_embedding = nn.Embedding(source_words, width, PAD)
        self.target_embedding = nn.Embedding(target_words, width, PAD)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, heads, hidden, dropout, batch_first=True),
            layers,
            nn.LayerNorm(width),
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(width, heads, hidden, dropout, batch_first=True), layers, nn.LayerNorm(width)
        )
        self.output = nn.Linear(width, target_words)
        self.register_buffer("places", _sinusoids(longest, width), persistent=False)
        # PyTorch makes the layers of a side as copies of one: each gets weights of its own.
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1 and "embedding" not in name:
                nn.init.xavier_uniform_(parameter)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=width**-0.5)
            with torch.no_grad():
                embedding.weight[PAD] = 0

    def _embedded(self, embedding, words):
        if words.shape[1] > len(self.places):
            raise ValueError(f"a sentence of {words.shape[1]} words, and the longest may have {len(self.places)}")
        return self.dropout(embedding(words) * math.sqrt(self.width) + self.places[: words.shape[1]])

    def encode(self, source_NS: Tensor) -> Tensor:
        """The memory [N, S, width] that the decoder attends to."""
        return self.encoder(self._embedded(self.source_embedding, source_NS), src_key_padding_mask=source_NS == PAD)

    def decode(self, memory_NSD: Tensor, source_NS: Tensor, target_NT: Tensor) -> Tensor:
        """Logits [N, T, target words], at each place of the word that follows; none depends on a later word."""
        length = target_NT.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=target_NT.device).triu(1)
        decoded = self.decoder(
            self._embedded(self.target_embedding, target_NT), memory_NSD, tgt_mask=later,
            tgt_is_causal=True,  # else PyTorch asks the mask's values, which an export doesn't know
            tgt_key_padding_mask=target_NT == PAD, memory_key_padding_mask=source_NS == PAD,
        )  # fmt: skip
        return self.output(decoded)

    def forward(self, source_NS: Tensor, target_NT: Tensor) -> Tensor:
        """Logits [N, T, target words] of the words behind each of ``target_NT``, which begins with BEGIN."""
        return self.decode(self.encode(source_NS), source_NS, target_NT)

    @torch.no_grad()
    def greedy(self, source_NS: Tensor, longest: int = 64) -> list[list[int]]:
        """Translations, always with the likeliest next word: numbers of words, without BEGIN and END.

        ``longest``: words at which one is cut off. The network's mode stays: call eval() before.
        """
        memory = self.encode(source_NS)
        target = torch.full((len(source_NS), 1), BEGIN, device=source_NS.device)
        ended = torch.zeros(len(source_NS), dtype=torch.bool, device=source_NS.device)
        while target.shape[1] <= longest and not ended.all():
            logits = self.decode(memory, source_NS, target)[:, -1]
            logits[:, [PAD, BEGIN]] = -torch.inf
            word = logits.argmax(-1).masked_fill(ended, PAD)
            ended |= word == END
            target = torch.cat([target, word[:, None]], 1)
        return [[word for word in row[1:] if word not in (PAD, END)] for row in target.tolist()]


def _sinusoids(longest: int, width: int) -> Tensor:
    """[longest, width]: sines and cosines in turn, wavelengths from 2π to 20000π places."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000) / width))
    angles = torch.arange(longest)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


def translation_loss(logits_NTV: Tensor, words_NT: Tensor) -> Tensor:
    """Mean cross-entropy of the words to come, those of padding left out."""
    return F.cross_entropy(logits_NTV.flatten(0, 1), words_NT.flatten(), ignore_index=PAD)
