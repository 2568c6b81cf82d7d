"""Scores of networks in each task, by hand; fewer examples; the cost of attention."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.algorithm import PredictorSettings
from adagp.experiments.average_precision import Objects
from adagp.experiments.data import DATASETS, DataError, load
from adagp.experiments.data.translation import SentencePairs
from adagp.experiments.data.vocabulary import BEGIN, END, PAD, Vocabulary
from adagp.experiments.methods.costs import batch_costs
from adagp.experiments.networks.transformer import TranslationTransformer
from adagp.experiments.networks.yolo_boxes import priors
from adagp.experiments.networks.yolo_loss import targets
from adagp.experiments.preparation import some
from adagp.experiments.tasks import CLASSIFICATION, DETECTION, TRANSLATION, moved, task_of
from torch import nn
from torch.nn import functional as F


class Given(nn.Module):
    """A network with outputs of its own, whatever it is given, batch by batch."""

    def __init__(self, *outputs, n_classes=0):
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(1))
        self.outputs, self.n_classes = list(outputs), n_classes

    def forward(self, *_):
        assert not self.training
        return self.outputs.pop(0)


class Listed:
    """Examples in batches of their own."""

    def __init__(self, *examples):
        self.examples = examples

    def __len__(self):
        return len(self.examples)

    def batch(self, indexes, draw):
        kept = [self.examples[i] for i in indexes]
        return torch.stack([x for x, _ in kept]), [y for _, y in kept]


def test_tasks_of_data_sets():
    assert {name for name in DATASETS if task_of(name) is not CLASSIFICATION} == {"multi30k", "voc"}
    assert task_of("multi30k") is TRANSLATION and task_of("voc") is DETECTION


def test_classification_and_its_loss():
    data = load("digits").test
    task = replace(CLASSIFICATION, evaluated=200)
    first, second = torch.zeros(200, 10), torch.zeros(160, 10)
    first[:, 1] = second[:, 2] = 3.0
    labels = data.labels_N
    right = (labels[:200] == 1).sum() + (labels[200:] == 2).sum()
    network = Given(first.clone(), second.clone())
    assert task.score(network, data) == pytest.approx(100 * right / 360) and network.training
    each = math.log(9 + math.exp(3)) - 3 * right / 360
    # Score and loss ask the network once each.
    score, loss = task.score_and_loss(Given(first, first, second, second), data)
    assert score == pytest.approx(100 * right / 360) and loss == pytest.approx(each, rel=1e-6)


def test_word_accuracy_and_bleu():
    """Two sentences of three and one words; one word of five, and neither of the ends, is right."""
    source = target = [["a", "b", "a"], ["b"]]
    words = Vocabulary(target, 1)
    pairs = SentencePairs(source, target, words, words)
    a, b = words.encode(["a", "b"])[1:-1]
    said = torch.tensor([[a, a, b, b], [b, END, a, a]])
    network = Given(F.one_hot(said, len(words)).float())
    # Right: a of a b a, then b and the end of b; the six words to come are a b a END and b END.
    assert TRANSLATION.score(network, pairs) == pytest.approx(100 * 3 / 6)
    logits = F.one_hot(said, len(words)).float()
    one = math.log(math.e + len(words) - 1)
    network = Given(logits, logits)
    network.greedy = lambda source: [[a, b, a], [b]]
    measures = TRANSLATION.measures(network, pairs)
    assert measures["loss"] == pytest.approx(one - 3 / 6) and measures["bleu"] == 0  # no four words in a row
    long = SentencePairs([["a"] * 5], [["a", "b", "a", "b", "a"]], words, words)
    network = Given(torch.zeros(1, 6, len(words)), torch.zeros(1, 6, len(words)))
    network.greedy = lambda source: [[a, b, a, b, a]]
    assert TRANSLATION.measures(network, long)["bleu"] == pytest.approx(100)
    assert (PAD, BEGIN) == (0, 2)


def test_detection_and_the_classes_of_its_objects():
    """Two images: an object found as what it is, and one found as something else; a difficult one counts nowhere."""
    grid = priors(64)
    boxes = torch.tensor([[4.0, 4, 40, 40], [50, 50, 60, 60]])
    objects = [
        Objects(boxes[:1], torch.tensor([1]), torch.tensor([False])),
        Objects(boxes, torch.tensor([0, 2]), torch.tensor([False, True])),
    ]
    outputs = torch.full((2, len(grid.cells_P2), 8), -20.0)
    for image in (0, 1):
        target = targets(boxes[:1], torch.tensor([1]), grid, 3)
        prior = target.priors_M[0]
        outputs[image, prior, :2] = torch.logit(target.boxes_M4[0, :2])
        outputs[image, prior, 2:4] = target.boxes_M4[0, 2:]
        outputs[image, prior, 4:] = torch.tensor([20.0, -20, 25, -20])
    examples = Listed(*((torch.zeros(3, 64, 64), one) for one in objects))
    # Class 1 is all found, but in image 1 once more and that wrong with the same score; class 0 isn't.
    assert DETECTION.score(Given(outputs, n_classes=3), examples) == pytest.approx(100 * (1 + 0) / 2)
    measures = DETECTION.measures(Given(*[outputs] * 3, n_classes=3), examples)
    assert measures["class_accuracy"] == 50 and measures["loss"] == pytest.approx((0 + 20 + 25) / 2, abs=0.1)


def test_all_of_a_batch_moves():
    one = Objects(torch.zeros(1, 4), torch.zeros(1), torch.zeros(1))
    image, (objects,) = moved((torch.zeros(2), [one]), torch.device("meta"))
    assert image.is_meta and objects.boxes_K4.is_meta and objects.difficult_K.is_meta
    assert moved("a", torch.device("meta")) == "a"


def test_some_examples():
    words = Vocabulary([["a"]], 1)
    pairs = SentencePairs([[str(i)] for i in range(9)], [[str(-i)] for i in range(9)], words, words)
    fewer = some(pairs, 4, 0)
    assert len(fewer) == 4 and all(t == ["-" + s[0]] or s == t for s, t in zip(fewer.source, fewer.target, strict=True))
    digits = load("digits").train
    fewer = some(digits, 7, 1)
    places = [np.flatnonzero((digits.images_NCHW == x).all((1, 2, 3)))[0] for x in fewer.images_NCHW]
    assert places == sorted(places) and (digits.labels_N[places] == fewer.labels_N).all()
    with pytest.raises(DataError, match="images is 10, and there are 9 training examples"):
        some(pairs, 10, 0)


def test_attention_costs_what_its_projections_do():
    """Width 8, feed-forward 16, one layer a side; 3 sentences of 5 and 4 words; 11 words in the target's vocabulary."""
    network = TranslationTransformer(12, 11, width=8, heads=2, hidden=16, layers=1)
    source, target = torch.full((3, 5), 4), torch.full((3, 4), 4)
    costs = batch_costs(network, lambda net: net(source, target), PredictorSettings())
    encoder = 15 * (4 * 64 + 2 * 8 * 16)
    own = 12 * (4 * 64 + 2 * 8 * 16 + 8 * 11)
    across = 12 * 2 * 64 + 15 * 2 * 64  # queries and outputs are of the target's words, keys and values of the source's
    assert costs.forward == encoder + own + across
