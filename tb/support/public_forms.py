"""Tiny data sets in the forms of the published ones, with random contents."""

import gzip
import pickle
import tarfile
from io import BytesIO

import numpy as np
from adagp.experiments.data.voc_files import CLASSES
from PIL import Image


def random_images(rng, count, size=32):
    return rng.integers(0, 256, (count, 3, size, size), dtype=np.uint8)


def jpeg(rng, width, height):
    file = BytesIO()
    Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(file, "JPEG")
    return file.getvalue()


def cifar_python(folder, rng, names, label, n_classes, count=4):
    """Pickles as of Python 2: keys are bytes. Returns images and labels by file."""
    folder.mkdir(parents=True)
    contents = {}
    for name in names:
        images, labels = random_images(rng, count), rng.integers(0, n_classes, count).tolist()
        batch = {b"data": images.reshape(count, -1), label: labels, b"batch_label": b"one", b"filenames": [b"a"]}
        (folder / name).write_bytes(pickle.dumps(batch, 2))
        contents[name] = images, labels
    return contents


def cifar_binary(folder, rng, names, n_labels, n_classes, count=4):
    folder.mkdir(parents=True)
    contents = {}
    for name in names:
        images, labels = random_images(rng, count), rng.integers(0, n_classes, count)
        coarse = np.zeros((count, n_labels - 1), np.uint8)
        records = np.hstack([coarse, labels[:, None].astype(np.uint8), images.reshape(count, -1)])
        (folder / f"{name}.bin").write_bytes(records.astype(np.uint8).tobytes())
        contents[name] = images, labels.tolist()
    return contents


def compact(path, rng, parts, size=16, n_classes=3, **changes):
    arrays = {}
    for part, count in parts.items():
        files = [jpeg(rng, size, size) for _ in range(count)]
        arrays[f"{part}_jpeg"] = np.frombuffer(b"".join(files), np.uint8)
        arrays[f"{part}_off"] = np.cumsum([0, *map(len, files)])
        arrays[f"{part}_y"] = (np.arange(count) % n_classes).astype(np.uint8)
    np.savez(path, **(arrays | changes))
    return path


def imagenet(folder, rng, classes=("n01", "n02"), train=10, val=2):
    for part, count in (("train", train), ("val", val)):
        for name in classes:
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                (folder / part / name / f"{number}.JPEG").write_bytes(jpeg(rng, 50 + number, 40))
    return folder


def multi30k(folder, sentences, compressed=False):
    """``sentences``: lines by part and language."""
    for (part, language), lines in sentences.items():
        raw = "".join(line + "\n" for line in lines).encode()
        path = folder / f"{part}.{language}{'.gz' if compressed else ''}"
        path.write_bytes(gzip.compress(raw) if compressed else raw)
    return folder


def annotation(objects):
    """XML of (class, left, top, right, bottom, difficult)."""
    things = "".join(
        f"<object><name>{name}</name><difficult>{int(difficult)}</difficult><bndbox><xmin>{left}</xmin>"
        f"<ymin>{top}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
        for name, left, top, right, bottom, difficult in objects
    )
    return f"<annotation><folder>VOC2007</folder>{things}</annotation>"


def voc(year, rng, lists, objects=((CLASSES[0], 1, 1, 40, 20, False), (CLASSES[2], 11, 6, 20, 15, True))):
    """A year's folder: photographs of 80 x 40 pixels, all with the same objects."""
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (year / name).mkdir(parents=True)
    for name, images in lists.items():
        (year / "ImageSets/Main" / f"{name}.txt").write_text("".join(f"{image}\n" for image in images))
        for image in images:
            (year / "JPEGImages" / f"{image}.jpg").write_bytes(jpeg(rng, 80, 40))
            (year / "Annotations" / f"{image}.xml").write_text(annotation(objects))
    return year


def tar_of(folder, path):
    with tarfile.open(path, "w") as archive:
        archive.add(folder, ".")
    return path
