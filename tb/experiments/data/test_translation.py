"""Multi30k's form, words, BLEU, and the Transformer."""

import math

import public_forms as forms
import pytest
import torch
from adagp.experiments.bleu import bleu
from adagp.experiments.data import Batches, DataError, load
from adagp.experiments.data.vocabulary import BEGIN, END, PAD, UNKNOWN, Vocabulary, words_of
from adagp.experiments.networks.models import build
from adagp.experiments.networks.transformer import TranslationTransformer, translation_loss

LINES = {
    ("train", "de"): ["Ein Hund läuft.", "Ein Mann, ein Hund.", "Der Mann läuft."],
    ("train", "en"): ["A dog runs.", "A man, a dog.", "The man runs."],
    ("val", "de"): ["Ein Vogel."], ("val", "en"): ["A bird."],
    ("test_2016_flickr", "de"): ["Der Hund."], ("test_2016_flickr", "en"): ["The dog."],
}  # fmt: skip


@pytest.mark.parametrize("compressed", (False, True))
def test_multi30k_becomes_numbers_filled_up(compressed, tmp_path):
    splits = load("multi30k", forms.multi30k(tmp_path, LINES, compressed))
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (3, 1, 1)
    source, target = next(iter(Batches(splits.train, 3, 0, 0, shuffle=False)))
    # Seen twice: ".", "ein" (3), "hund", "läuft", "mann"; then by number and name.
    assert splits.train.source_words.encode(["ein", ".", "hund", "läuft", "mann", "der"]) == [
        BEGIN, 5, 4, 6, 7, 8, UNKNOWN, END,
    ]  # fmt: skip
    assert source.tolist() == [
        [BEGIN, 5, 6, 7, 4, END, PAD, PAD], [BEGIN, 5, 8, UNKNOWN, 5, 6, 4, END],
        [BEGIN, UNKNOWN, 8, 7, 4, END, PAD, PAD],
    ]  # fmt: skip
    assert target.shape == (3, 8) and splits.n_classes == len(splits.train.target_words) == 9
    assert splits.validation.source_words is splits.train.source_words
    reverse = load("multi30k", tmp_path, source="en", target="de")
    assert torch.equal(next(iter(Batches(reverse.train, 3, 0, 0, shuffle=False)))[0], target)


def test_multi30ks_errors_name_file_and_line(tmp_path):
    with pytest.raises(DataError, match=r"no folder is given; it must hold train.de, .*github.com/multi30k"):
        load("multi30k")
    with pytest.raises(DataError, match=r"neither train.de nor train.de.gz, .*github.com/multi30k"):
        load("multi30k", tmp_path)
    forms.multi30k(tmp_path, LINES | {("val", "en"): ["A bird.", "More."]})
    with pytest.raises(DataError, match=r"1 lines in val.de, and 2 in val.en"):
        load("multi30k", tmp_path)
    forms.multi30k(tmp_path, LINES | {("val", "en"): ["", "More."]})
    with pytest.raises(DataError, match=r"val.en: line 1 is empty"):
        load("multi30k", tmp_path)
    (tmp_path / "val.en").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"val.en: .*utf-8"):
        load("multi30k", tmp_path)
    (tmp_path / "val.en").unlink()
    (tmp_path / "val.en.gz").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"val.en.gz: "):
        load("multi30k", tmp_path)


def test_words_are_lower_case_and_marks_their_own():
    assert words_of("Two men's T-shirts (red), über!") == [
        "two", "men's", "t", "-", "shirts", "(", "red", ")", ",", "über", "!",
    ]  # fmt: skip


def test_a_vocabulary_goes_both_ways():
    vocabulary = Vocabulary([["a", "b"], ["b", "a", "c"]])
    assert vocabulary.decode([*vocabulary.encode(["b", "a", "c"]), PAD, 4]) == ["b", "a", "<unk>"]
    assert vocabulary.decode([BEGIN, 4, PAD, 5]) == ["a", "b"] and len(vocabulary) == 6


def test_bleu_is_what_is_reckoned_by_hand():
    # One word in a row: "the" counts twice, as in the reference: the cat sat on the = 5 of 7.
    # Two: the cat, cat sat, sat on, on the = 4 of 6; three: 3 of 5; four: 2 of 4. 7 words for 8.
    translation, reference = map(words_of, ("the cat sat on the the the", "the cat sat on the big red mat"))
    by_hand = 100 * (5 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25 * math.exp(1 - 8 / 7)
    assert bleu([translation], [reference]) == pytest.approx(by_hand)
    # Counts of a corpus are added up before they are divided, and it is long enough as a whole: 7 + 4 for 8 + 3.
    more, other = list("abcd"), list("abc")
    by_hand = 100 * (8 / 11 * 6 / 9 * 4 / 7 * 2 / 5) ** 0.25
    assert bleu([translation, more], [reference, other]) == pytest.approx(by_hand)


def test_bleu_at_its_ends():
    sentence = list("abcde")
    assert bleu([sentence], [sentence]) == 100
    assert bleu(["abc"], ["abc"]) == 0 == bleu([[]], [sentence]) == bleu([], [])
    with pytest.raises(ValueError, match="1 translations, and 2 references"):
        bleu([sentence], [sentence, sentence])


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    return TranslationTransformer(12, 11, width=16, heads=2, hidden=16).eval()


def test_no_output_depends_on_a_later_word(small):
    source, target = torch.randint(4, 12, (2, 6)), torch.randint(4, 11, (2, 7))
    before = small(source, target)
    for place in range(1, 7):
        changed = target.clone()
        changed[:, place] = (changed[:, place] - 4 + 1) % 7 + 4
        after = small(source, changed)
        torch.testing.assert_close(after[:, :place], before[:, :place])
        assert not torch.allclose(after[:, place], before[:, place])


def test_no_output_depends_on_padding():
    torch.manual_seed(0)
    small = TranslationTransformer(12, 11, width=16, heads=2, hidden=16, dropout=0)
    source, target = torch.randint(4, 12, (1, 4)), torch.randint(4, 11, (1, 5))
    padded = torch.nn.functional.pad(source, (0, 3), value=PAD), torch.nn.functional.pad(target, (0, 2), value=PAD)
    for train in (True, False):
        small.train(train)
        for mode in (torch.enable_grad, torch.no_grad):  # PyTorch has a faster encoder for one of the four
            with mode():
                torch.testing.assert_close(small(*padded)[:, :5], small(source, target))


def test_places_of_words_matter(small):
    source, target = torch.tensor([[4, 5, 6]]), torch.tensor([[BEGIN, 4]])
    assert not torch.allclose(small(source, target), small(source.flip(1), target), atol=1e-3)
    torch.testing.assert_close(small.places[3, :4], torch.tensor(
        [math.sin(3), math.cos(3), math.sin(3 * 10000 ** (-2 / 16)), math.cos(3 * 10000 ** (-2 / 16))]))  # fmt: skip
    with pytest.raises(ValueError, match="300 words, and the longest may have 256"):
        small(torch.full((1, 300), 4), target)


def test_greedy_takes_the_likeliest_word_each_time(small):
    source = torch.randint(4, 12, (3, 6))
    for numbers, one in zip(small.greedy(source, 9), source, strict=True):
        target = [BEGIN]
        while len(target) <= 9:
            logits = small(one[None], torch.tensor([target]))[0, -1]
            logits[[PAD, BEGIN]] = -torch.inf
            if (word := int(logits.argmax())) == END:
                break
            target.append(word)
        assert numbers == target[1:]


def test_greedy_ends_each_sentence_by_itself(small):
    bias = small.output.bias.detach().clone()
    with torch.no_grad():
        small.output.bias[END] += 1000
    assert small.greedy(torch.randint(4, 12, (3, 6))) == [[], [], []]
    with torch.no_grad():
        small.output.bias.copy_(bias)


def test_loss_leaves_padding_out():
    logits = torch.randn(2, 3, 5)
    words = torch.tensor([[4, END, PAD], [1, 2, END]])
    real = logits.flatten(0, 1)[[0, 1, 3, 4, 5]].log_softmax(-1)
    wanted = -real[range(5), [4, END, 1, 2, END]].mean()
    torch.testing.assert_close(translation_loss(logits, words), wanted)


def test_the_papers_transformer_has_its_size():
    network = build("transformer", 700, source_words=500)
    attention, feed_forward, norm = 4 * (512 * 512 + 512), 2 * (512 * 512 + 512), 2 * 512
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    words = 512 * (500 + 700) + 700 * 513
    assert sum(p.numel() for p in network.parameters()) == 3 * (encoder + decoder) + 2 * norm + words
    layers = [*network.encoder.layers, *network.decoder.layers]
    assert len({layer.linear1.weight[0, 0].item() for layer in layers}) == 6  # no copies
