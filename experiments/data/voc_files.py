"""Files of Pascal VOC, in a folder or in a .tar file that is read as it is."""

import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

import numpy as np

from ...host.training.data import DataError

__all__ = ["CLASSES", "URL", "Annotation", "VocFiles"]

URL = "http://host.robots.ox.ac.uk/pascal/VOC/"
CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
LISTS = "ImageSets/Main"


@dataclass(frozen=True)
class Annotation:
    """Boxes with corners (float64, in pixels of the photograph, from 0 on), classes, and which are difficult."""

    boxes_K4: np.ndarray
    classes_K: np.ndarray
    difficult_K: np.ndarray

    def easy(self) -> "Annotation":
        """Without difficult objects."""
        easy = ~self.difficult_K
        return Annotation(self.boxes_K4[easy], self.classes_K[easy], self.difficult_K[easy])


class VocFiles:
    """One year's files under ``place``, a folder or a .tar file; raises DataError if there is none, or several."""

    def __init__(self, place: Path):
        self.root = str(place)
        self._folder: Path | None = None
        self._members: dict[str, tarfile.TarInfo] = {}
        if place.is_dir():
            roots = [p for p in (place, *place.glob("VOC2*"), *place.glob("VOCdevkit/VOC2*")) if (p / LISTS).is_dir()]
        else:
            roots = self._open(place)
        if len(roots) != 1:
            found = "no" if not roots else ", ".join(sorted(str(root) for root in roots)) + ": more than one"
            raise DataError(f"voc: {place} holds {found} folder with {LISTS} (of one year), from {URL}")
        self._prefix = str(roots[0])
        if place.is_dir():
            self._folder = roots[0]

    def _open(self, place):
        try:
            with tarfile.open(place, "r:") as archive:
                members = archive.getmembers()
        except (OSError, EOFError, tarfile.TarError) as error:
            raise DataError(f"can't read {place}: {error}; a .tar of VOCdevkit is at {URL}") from None
        self._members = {str(PurePosixPath(member.name)): member for member in members if member.isfile()}
        return sorted({
            PurePosixPath(name).parents[2] for name in self._members if str(PurePosixPath(name).parent).endswith(LISTS)
        })  # fmt: skip

    def _name(self, path):
        return str(PurePosixPath(self._prefix) / path)

    def _has(self, path):
        return (self._folder / path).is_file() if self._folder else self._name(path) in self._members

    def _read(self, path: str) -> bytes:
        if not self._has(path):
            raise DataError(f"voc: {self.root} has no {path}, which one of its lists or images needs; from {URL}")
        if self._folder:
            return (self._folder / path).read_bytes()
        member = self._members[self._name(path)]
        with open(self.root, "rb") as archive:  # where it lies is known, and nothing is compressed
            archive.seek(member.offset_data)
            raw = archive.read(member.size)
        if len(raw) < member.size:
            raise DataError(f"can't read {path} in {self.root}: the file ends before it")
        return raw

    def has_list(self, name: str) -> bool:
        """True if there is a list of images of that name."""
        return self._has(f"{LISTS}/{name}.txt")

    def listed(self, name: str) -> list[str]:
        """Names of the images in a list."""
        names = self._read(f"{LISTS}/{name}.txt").decode("utf-8", "replace").split()
        if not names:
            raise DataError(f"voc: {LISTS}/{name}.txt of {self.root} is empty")
        return names

    def image(self, name: str) -> tuple[bytes, str]:
        """A photograph's file, and what to call it."""
        path = f"JPEGImages/{name}.jpg"
        return self._read(path), f"{path} in {self.root}"

    def annotation(self, name: str) -> Annotation:
        """The objects of a photograph. In files the first pixel is 1 and the last one belongs to the box."""
        path = f"Annotations/{name}.xml"
        boxes, classes, difficult = [], [], []
        try:
            for thing in ElementTree.fromstring(self._read(path)).iterfind("object"):
                left, top, right, bottom = (
                    float(_text(thing, f"bndbox/{side}")) for side in ("xmin", "ymin", "xmax", "ymax")
                )
                boxes.append((left - 1, top - 1, right, bottom))
                classes.append(_class(_text(thing, "name")))
                difficult.append(thing.findtext("difficult", "0").strip() == "1")
                if not (right >= left and bottom >= top):
                    raise ValueError(f"a box from {left:g}, {top:g} to {right:g}, {bottom:g}")
        except (ElementTree.ParseError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"can't read {path} in {self.root}: {error}") from None
        return Annotation(
            np.array(boxes, np.float64).reshape(-1, 4), np.array(classes, np.int64), np.array(difficult, bool)
        )


def _text(thing, path):
    text = thing.findtext(path)
    if text is None:
        raise ValueError(f"an object without {path}")
    return text.strip()


def _class(name):
    if name not in CLASSES:
        raise ValueError(f"{name!r} is none of its classes")
    return CLASSES.index(name)
