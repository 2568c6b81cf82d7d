"""YOLO-v3: priors, boxes, loss, thinning out and mean average precision, against cases reckoned by hand."""

import math

import pytest
import torch
from adagp.experiments.average_precision import Objects, average_precisions, mean_average_precision
from adagp.experiments.networks.models import build
from adagp.experiments.networks.yolo_boxes import Detections, corners, decode, detect, iou, nms, priors
from adagp.experiments.networks.yolo_loss import targets, yolo_loss
from torch import Tensor


def boxes(*rows) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 4)


def test_priors_are_in_the_order_of_the_outputs():
    grid = priors(416)
    assert len(grid.cells_P2) == 3 * (13 * 13 + 26 * 26 + 52 * 52) == 10647
    # Second prior of column 5, row 2 of the coarse scale.
    place = (2 * 13 + 5) * 3 + 1
    assert grid.cells_P2[place].tolist() == [5, 2] and grid.sizes_P2[place].tolist() == [156, 198]
    assert grid.boxes_P4[place].tolist() == [5.5 * 32, 2.5 * 32, 156, 198]
    assert grid.strides_P1[[0, 506, 507, 2534, 2535, -1], 0].tolist() == [32, 32, 16, 16, 8, 8]
    assert grid.sizes_P2[-1].tolist() == [33, 23] and priors(208).sizes_P2[-1].tolist() == [16.5, 11.5]


def test_the_networks_outputs_lie_where_the_priors_do():
    network = build("yolo-v3", 2, 64).eval()
    for scale, layers in enumerate(network.scales):
        last = layers.detect[1]
        torch.nn.init.zeros_(last.weight)
        told = [100 * scale + 10 * prior + number for prior in range(3) for number in range(7)]
        with torch.no_grad():
            last.bias.copy_(torch.tensor(told))
    outputs = network(torch.zeros(1, 3, 64, 64))[0]
    assert outputs.shape == (len(priors(64).cells_P2), 7) == (3 * (4 + 16 + 64), 7)
    assert outputs[4].tolist() == [10 + i for i in range(7)] and outputs[-1].tolist() == [220 + i for i in range(7)]
    assert outputs[12].tolist() == [100 + i for i in range(7)]


def test_rows_and_columns_arent_mixed_up():
    network = build("yolo-v3", 1, 64).eval()
    seen = []
    network.scales[2].detect.register_forward_hook(lambda module, args, result: seen.append(result))
    outputs = network(torch.randn(1, 3, 64, 64))[0]
    grid = priors(64)
    for place in (60, 100, 251):
        (column, row), prior = grid.cells_P2[place].int().tolist(), place % 3
        assert torch.equal(outputs[place], seen[0][0, 6 * prior : 6 * prior + 6, row, column])


def test_yolos_size_is_the_published_one():
    network = build("yolo-v3", 80, 416)
    assert sum(p.numel() for p in network.parameters()) == 61_949_149
    # Darknet-53 as a classifier of 1000 classes has 41,609,928, of which its linear layer 1,025,000.
    assert sum(p.numel() for p in network.backbone.parameters()) == 41_609_928 - 1_025_000


def test_outputs_become_boxes_as_the_paper_says():
    grid = priors(416)
    outputs = torch.zeros(1, len(grid.cells_P2), 6)
    place = (2 * 13 + 5) * 3 + 1
    outputs[0, place, :4] = torch.tensor([math.log(3), -math.log(3), math.log(2), math.log(0.5)])
    # Logistic functions of ±log 3: 3/4 and 1/4 of the cell.
    torch.testing.assert_close(decode(outputs, grid)[0, place], torch.tensor([5.75 * 32, 2.25 * 32, 312, 99]))
    torch.testing.assert_close(decode(outputs, grid)[0, 0], torch.tensor([16.0, 16, 116, 90]))


def test_corners_and_overlaps():
    assert corners(boxes([10, 20, 4, 6])).tolist() == [[8, 17, 12, 23]]
    some = boxes([0, 0, 2, 2], [1, 1, 3, 3], [5, 5, 6, 6], [0, 0, 2, 1], [1, 1, 1, 1])
    wanted = [[1, 1 / 7, 0, 1 / 2, 0], [1 / 7, 1, 0, 0, 0]]
    torch.testing.assert_close(iou(some[:2], some), torch.tensor(wanted))
    assert iou(some[4:], some[4:]).tolist() == [[0]] and iou(some[:0], some).shape == (0, 5)


def test_nms_keeps_the_best_of_those_that_overlap():
    some = boxes([0, 0, 10, 10], [0, 0, 10, 8], [0, 2, 10, 10], [20, 0, 30, 10])
    scores = torch.tensor([0.5, 0.9, 0.6, 0.1])
    # 1 is best and takes 0 (overlap 0.8); 2 overlaps 1 by 60 of 100 = 0.6; 3 is by itself.
    assert nms(some, scores, 0.5).tolist() == [1, 3]
    assert nms(some, scores, 0.7).tolist() == [1, 2, 3]  # 0 is gone, so it takes nothing
    assert nms(some, scores, 0.8).tolist() == [1, 2, 0, 3]
    assert nms(some[:0], scores[:0], 0.5).tolist() == []


def test_what_is_detected_is_thinned_out_by_class():
    grid = priors(32)
    outputs = torch.full((2, len(grid.cells_P2), 7), -20.0)
    outputs[..., :4] = 0
    outputs[0, 0, 4:] = torch.tensor([20.0, 20, math.log(3)])  # both classes: 1 and 3/4
    outputs[0, 1, 4:] = torch.tensor([math.log(3), 20, -20])  # larger, 116x90 of 156x198 in common
    (first, second) = detect(outputs, grid, confidence=0.1, overlap=0.3)
    assert first.classes_M.tolist() == [0, 1] and len(second.scores_M) == 0
    torch.testing.assert_close(first.scores_M, torch.tensor([1, 0.75]))
    torch.testing.assert_close(first.boxes_M4[0], corners(grid.boxes_P4[:1])[0])
    (first, _) = detect(outputs, grid, confidence=0.1, overlap=0.35)
    assert first.scores_M.tolist() == sorted(first.scores_M.tolist(), reverse=True) and len(first.scores_M) == 3
    assert len(detect(outputs, grid, confidence=0.1, overlap=0.35, most=2)[0].scores_M) == 2
    assert len(detect(outputs, grid, confidence=0.8)[0].scores_M) == 1


def test_an_object_belongs_to_the_best_of_nine_priors():
    grid = priors(416)
    # 60x44 around (100, 60): the prior 62x45 of cells of 16, column 6, row 3.
    target = targets(boxes([70, 38, 130, 82]), torch.tensor([1]), grid, 3)
    place = 3 * 169 + (3 * 26 + 6) * 3 + 1
    assert target.priors_M.tolist() == [place] and target.classes_MC.tolist() == [[0, 1, 0]]
    wanted = [100 / 16 - 6, 60 / 16 - 3, math.log(60 / 62), math.log(44 / 45)]
    torch.testing.assert_close(target.boxes_M4, torch.tensor([wanted]))
    left_out = (~target.counted_P).nonzero()[:, 0].tolist()
    overlaps = iou(corners(grid.boxes_P4), boxes([70, 38, 130, 82]))[:, 0]
    assert place not in left_out and overlaps[place] > 0.5
    assert left_out == [i for i in (overlaps > 0.5).nonzero()[:, 0].tolist() if i != place] != []


def test_an_image_without_objects_only_learns_that():
    grid = priors(32)
    target = targets(boxes(), torch.tensor([], dtype=torch.long), grid, 2)
    outputs = torch.zeros(1, len(grid.cells_P2), 7)
    torch.testing.assert_close(yolo_loss(outputs, [target]), torch.tensor(63 * math.log(2)))


def test_two_objects_of_one_prior_leave_the_last():
    target = targets(boxes([70, 38, 130, 82], [71, 38, 131, 82]), torch.tensor([1, 2]), priors(416), 3)
    assert len(target.priors_M) == 1 and target.classes_MC.tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("box", ([5, 5, 5, 9], [9, 5, 5, 9], [-8, 1, 2, 9], [30, 1, 36, 9]))
def test_boxes_that_cant_be_are_refused(box):
    with pytest.raises(ValueError, match="an image of 32 pixels"):
        targets(boxes(box), torch.tensor([0]), priors(32), 1)


def test_the_loss_is_what_is_reckoned_by_hand():
    grid = priors(32)
    # 12x18 around (12, 14), of priors scaled by 32 / 416: 156x198 becomes 12 x 15.23, and is in the only cell of 32.
    target = targets(boxes([6, 5, 18, 23]), torch.tensor([0]), grid, 2)
    assert target.priors_M.tolist() == [1]
    outputs = torch.zeros(2, len(grid.cells_P2), 7)
    outputs[:, :, 4] = -1
    outputs[0, 1] = torch.tensor([math.log(3), 0, 0.5, 0, 2, 1, -1])
    place = (0.75 - 12 / 32) ** 2 + (0.5 - 14 / 32) ** 2
    size = (0.5 - math.log(12 / (156 * 32 / 416))) ** 2 + math.log(18 / (198 * 32 / 416)) ** 2
    there, classes = math.log(1 + math.exp(-2)), 2 * math.log(1 + math.exp(-1))
    nothing = math.log(1 + math.exp(-1))
    n_nothing = int(target.counted_P.sum()) - 1
    assert n_nothing == 62
    empty = targets(boxes(), torch.tensor([], dtype=torch.long), grid, 2)
    by_hand = (place + size + there + classes + n_nothing * nothing + 63 * nothing) / 2
    torch.testing.assert_close(yolo_loss(outputs, [target, empty]), torch.tensor(by_hand))


def test_outputs_without_loss_give_back_their_box():
    grid = priors(416)
    wanted = boxes([70, 38, 130, 82])
    target = targets(wanted, torch.tensor([1]), grid, 3)
    outputs = torch.full((1, len(grid.cells_P2), 8), -30.0)
    place = target.priors_M[0]
    outputs[0, place, :2] = torch.logit(target.boxes_M4[0, :2])
    outputs[0, place, 2:4] = target.boxes_M4[0, 2:]
    outputs[0, place, 4:] = torch.tensor([30.0, -30, 30, -30])
    assert float(yolo_loss(outputs, [target])) < 1e-6
    (found,) = detect(outputs, grid)
    torch.testing.assert_close(found.boxes_M4, wanted)
    assert found.classes_M.tolist() == [1]


def test_the_loss_can_be_learned_from():
    grid = priors(416)
    target = targets(boxes([70, 38, 130, 82]), torch.tensor([0]), grid, 2)
    outputs = torch.zeros(1, len(grid.cells_P2), 7, requires_grad=True)
    yolo_loss(outputs, [target]).backward()
    gradient, left_out = outputs.grad[0], ~target.counted_P
    assert left_out.any() and not gradient[left_out].any()
    assert (gradient[:, 4] > 0).sum() == target.counted_P.sum() - 1 and gradient[target.priors_M[0], 1:].all()


def objects(rows, difficult=None):
    found, classes = boxes(*(row[1:] for row in rows)), torch.tensor([row[0] for row in rows], dtype=torch.long)
    return Objects(found, classes, torch.tensor(difficult or [False] * len(rows), dtype=torch.bool))


def found(*rows):
    """Class, score, box."""
    classes, scores = ([row[i] for row in rows] for i in (0, 1))
    return Detections(boxes(*(row[2:] for row in rows)), torch.tensor(scores), torch.tensor(classes, dtype=torch.long))


A, B, FAR = (0, 0, 10, 10), (20, 0, 30, 10), (50, 50, 60, 60)


def test_average_precision_is_what_is_reckoned_by_hand():
    images = [objects([(0, *A), (0, *B)]), objects([(0, *A), (1, *B)])]
    detections = [
        found((0, 0.9, *A), (0, 0.7, *A), (0, 0.6, *B)),  # the second is a second one of the same object
        found((0, 0.8, *FAR), (1, 0.5, *B)),
    ]
    # Class 0 by score: right, wrong, wrong, right. Precisions 1, 1/2, 1/3, 2/4; recalls 1/3, 1/3, 1/3, 2/3.
    assert average_precisions(detections, images) == pytest.approx({0: 1 / 3 * 1 + 1 / 3 * 1 / 2, 1: 1})
    assert mean_average_precision(detections, images) == pytest.approx((1 / 2 + 1) / 2)


def test_precision_at_a_recall_is_the_best_from_there_on():
    images = [objects([(0, *A), (0, *B)])]
    detections = [found((0, 0.9, *FAR), (0, 0.8, *A), (0, 0.7, *B))]
    # Precisions 0, 1/2, 2/3 at recalls 0, 1/2, 1: 2/3 throughout.
    assert average_precisions(detections, images) == pytest.approx({0: 2 / 3})


def test_difficult_objects_are_neither_right_nor_wrong():
    images = [objects([(0, *A), (0, *B), (2, *A)], [False, True, True])]
    detections = [found((0, 0.9, *B), (0, 0.8, *A), (2, 0.7, *FAR))]
    assert average_precisions(detections, images) == {0: 1}


def test_half_an_overlap_is_enough_and_less_isnt():
    images = [objects([(0, *A)])]
    for box, precision in (((0, 0, 10, 5), 1), ((0, 0, 10, 4.9), 0)):
        assert mean_average_precision([found((0, 0.9, *box))], images) == precision
    assert mean_average_precision([found()], images) == 0 == mean_average_precision([found()], [objects([])])
    assert mean_average_precision([found((0, 0.9, *A))], [objects([])]) == 0
