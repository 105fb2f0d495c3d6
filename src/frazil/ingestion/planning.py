"""Makes a plan from scans and options, and refuses whatever would give wrong values. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np

from frazil.ingestion import comparing
from frazil.ingestion.aligning import (
    alignment,
    check_chunk_sizes,
    check_expansion,
    copied_chunks,
)
from frazil.ingestion.arranging import arrange
from frazil.ingestion.copying import apply_cf
from frazil.ingestion.encoding import (
    encoded_attributes,
    encoded_dtype,
    native_encoding,
    renewed,
    with_checksums,
)
from frazil.ingestion.georeference import Georeference
from frazil.ingestion.names import with_real_names
from frazil.ingestion.plans import (
    ABSENT,
    Findings,
    IngestFinding,
    IngestMode,
    IngestPlan,
    IngestSeverity,
    JoinAxis,
    JoinedVariable,
    PlannedArray,
    PlanOptions,
    TransferKind,
    with_new_axes,
)
from frazil.ingestion.records import FileScan, Shape

CODEC_PACKAGES: Final = {
    "gribberish": "gribberish",
    "imagecodecs_": "virtual-tiff",
    "virtual_tiff": "virtual-tiff",
    "numcodecs.imagecodecs_": "imagecodecs",
}
"""by the beginnings of the names of their codecs"""


def plan_ingest(
    scans: Sequence[FileScan],
    wanted: PlanOptions,
    findings: Findings,
    base: FileScan | None = None,
) -> IngestPlan:
    """Plan an ingest of some files, after what the repository has (`base`).

    The plan is usable only if `findings` has no errors then.
    """
    has_base = base is not None
    whole = (base, *scans) if base is not None else tuple(scans)
    _tell_notes(whole, findings)
    wanted = with_real_names(whole, wanted, findings)
    axes = arrange(whole, wanted.concat_dims, findings, has_base=has_base)
    if findings.errors:
        return IngestPlan(whole, (), (), whole[0].attributes, has_base)
    if not axes:
        _refuse_duplicates(whole, findings)
    by_name: dict[str, list[int]] = {}
    for number, scan in enumerate(whole):
        for variable in scan.variables:
            by_name.setdefault(variable.name, []).append(number)
    by_dim = {axis.name: axis for axis in axes}
    planner = _Planner(whole, by_dim, wanted, findings, has_base, Georeference.of(whole))
    made = (planner.plan(name, files) for name, files in by_name.items())
    arrays = [array for array in made if array is not None]
    return IngestPlan(whole, tuple(axes), tuple(arrays), whole[0].attributes, has_base)


def _tell_notes(scans: Sequence[FileScan], findings: Findings) -> None:
    notes: dict[str, list[str]] = {}
    for scan in scans:
        for note in scan.notes:
            notes.setdefault(note, []).append(scan.url)
    for note, urls in notes.items():
        findings.note("left-out", note, urls)


def _refuse_duplicates(scans: Sequence[FileScan], findings: Findings) -> None:
    """Refuse duplicate files if there is no dimension to join them along."""
    seen: dict[str, str] = {}
    for scan in scans:
        names = [each.name for each in scan.variables if each.values is None]
        if names and all(name in seen for name in names):
            detail = (
                "files have the same variables and the same coordinates; if they are to be joined"
                " along a new dimension, or one without coordinates, name it"
            )
            findings.error("duplicate", detail, (seen[names[0]], scan.url))
        seen |= {name: scan.url for name in names if name not in seen}


@dataclass(frozen=True, slots=True, eq=False)
class _Planner:
    """Plans one variable after the other."""

    scans: Sequence[FileScan]
    axes: Mapping[str, JoinAxis]
    wanted: PlanOptions
    findings: Findings
    has_base: bool
    places: Georeference

    def plan(self, name: str, files: Sequence[int]) -> PlannedArray | None:
        """Plan a variable; None when there is nothing to write, or something forbids it."""
        joint = JoinedVariable(
            name,
            (),
            [self.scans[number].url for number in files],
            files,
            [self.scans[number][name] for number in files],
            self.axes,
            has_base=self.has_base and files[0] == 0,
        )
        if name in self.axes:
            return self._coordinate(self.axes[name], joint)
        dims = self._dims(joint)
        if dims is None:
            return None
        joint = replace(joint, dims=dims)
        shape = self._shape(joint)
        if shape is None:
            return None
        if not any(dim in self.axes for dim in dims):
            return self._static(joint, shape)
        if not self._covers(joint):
            return None
        if all(part.values is not None for part in joint.parts):
            attrs = comparing.same_attrs(joint, self.findings, self._moving(name), self.places)
            return (
                None if attrs is None else self._finished(TransferKind.LOADED, joint, shape, attrs)
            )
        return self._data(joint, shape)

    # --- shapes ---

    def _dims(self, joint: JoinedVariable) -> tuple[str, ...] | None:
        """Dimensions in the repository; those that files lack come first."""
        if not joint.own:
            return joint.parts[0].dims
        own = comparing.same_dims(joint, self.findings)
        if own is None:
            return None
        new = tuple(axis.name for axis in self.axes.values() if axis.is_new)
        is_loaded = all(part.values is not None for part in joint.parts)
        dims = own if is_loaded and comparing.same_values(joint.parts) else (*new, *own)
        there = joint.parts[0].dims if joint.has_base else dims
        if dims != there:
            detail = (
                f"the dimensions are ({', '.join(dims)}) here, and ({', '.join(there)}) in the"
                " repository"
            )
            self.findings.error("dimensions", detail, joint.own_urls, joint.name)
            return None
        return dims

    def _shape(self, joint: JoinedVariable) -> Shape | None:
        first = joint.parts[0]
        lengths = dict(zip(first.dims, first.shape, strict=True))
        for url, part in zip(joint.urls, joint.parts, strict=True):
            for dim, length in zip(part.dims, part.shape, strict=True):
                if dim not in self.axes and length != lengths[dim]:
                    detail = (
                        f"the dimension {dim!r} has the length {length}, and {lengths[dim]} in"
                        " the first file"
                    )
                    self.findings.error("shape", detail, [url], joint.name)
                    return None
        return tuple(
            self.axes[dim].length if dim in self.axes else lengths[dim] for dim in joint.dims
        )

    def _covers(self, joint: JoinedVariable) -> bool:
        """Whether each part of the array comes from exactly one file."""
        axes = [self.axes[dim] for dim in joint.dims if dim in self.axes]
        places: dict[tuple[int, ...], int] = {}
        is_good = True
        for number in joint.files:
            place = tuple(int(axis.block[number]) for axis in axes)
            other = places.setdefault(place, number)
            if other != number:
                is_good = False
                self.findings.error(
                    "duplicate",
                    "two files have the same part",
                    [self.scans[other].url, self.scans[number].url],
                    joint.name,
                )
        missing = prod(axis.blocks for axis in axes) - len(places)
        if missing and is_good:
            return self._may_miss(joint, axes, places, missing)
        return is_good

    def _may_miss(
        self,
        joint: JoinedVariable,
        axes: Sequence[JoinAxis],
        places: Mapping[tuple[int, ...], int],
        missing: int,
    ) -> bool:
        """Whether an array may lack some of its parts; they would read as the fill value."""
        lacking = [
            scan.url
            for number, scan in enumerate(self.scans)
            if (place := tuple(int(axis.block[number]) for axis in axes)) not in places
            and ABSENT not in place
        ]
        message = f"{missing} part(s) of the variable are in no file"
        if lacking or "_FillValue" not in joint.parts[0].attrs:
            why = "" if lacking else ", and without _FillValue they would read as numbers"
            self.findings.error("missing-variable", message + why, lacking, joint.name)
            return False
        self.findings.warn("gap", f"{message}; they read as missing values", (), joint.name)
        return True

    # --- the kinds of variables ---

    def _coordinate(self, axis: JoinAxis, joint: JoinedVariable) -> PlannedArray | None:
        """The coordinate of a dimension along which files are joined."""
        but = comparing.TIME if axis.units is not None else frozenset()
        attrs = comparing.same_attrs(joint, self.findings, but | {"_FillValue"})
        if attrs is None:
            return None
        if axis.units is not None:
            attrs |= {"units": axis.units.text}
            detail = f"times are counted in different units; all are stored as {axis.units.text!r}"
            self.findings.note("time-units", detail, joint.urls, axis.name)
        if axis.values is None:
            self.findings.error(
                "missing-coordinate", "the values cannot be read", joint.urls, axis.name
            )
            return None
        whole = replace(joint, dims=(axis.name,))
        return self._finished(TransferKind.LOADED, whole, (axis.length,), attrs)

    def _moving(self, name: str) -> frozenset[str]:
        """Attributes that may differ: bounds follow their coordinate, whose units may move."""
        for axis in self.axes.values():
            owner = self.scans[0].get(axis.name)
            attrs = {} if owner is None or axis.units is None else owner.attrs
            if name in (attrs.get("bounds"), attrs.get("climatology")):
                return comparing.TIME
        return frozenset()

    def _static(self, joint: JoinedVariable, shape: Shape) -> PlannedArray | None:
        """A variable that is the same in all files; its values are compared later if not here."""
        attrs = comparing.same_attrs(joint, self.findings, places=self.places)
        is_native = joint.name in self.wanted.native_arrays
        if attrs is None or not comparing.equal_values(
            joint, self.findings, has_codecs=not is_native
        ):
            return None
        if joint.has_base:
            if joint.parts[0].values is None and joint.own:
                detail = "its values were not compared with those that the repository has"
                self.findings.note("not-compared", detail, (), joint.name)
            return None  # it is there already
        if joint.parts[0].values is not None:
            return self._finished(TransferKind.LOADED, joint, shape, attrs)
        one = replace(joint, files=joint.files[:1], parts=joint.parts[:1], urls=joint.urls[:1])
        return self._data(one, shape)

    def _data(self, joint: JoinedVariable, shape: Shape) -> PlannedArray | None:
        """A variable that is referred to or, if it cannot be and the user agrees, copied."""
        name, found = joint.name, Findings(refused=self.findings.refused)
        attrs = comparing.same_attrs(joint, found, places=self.places)
        copies = (
            self.wanted.mode is IngestMode.NATIVE
            or bool(self.wanted.chunks)
            or name in self.wanted.native_arrays
        )
        comparing.same_encoding(joint, found, has_codecs=not copies)
        split = 0 if copies else alignment(joint, found)
        errors = found.errors
        if joint.has_base:
            found.found = [_lasting(each) for each in found.found]
        may_copy = self.wanted.copies and all(each.can_materialize for each in found.errors)
        if found.errors and not may_copy:
            self.findings.found += found.found
            return None
        self.findings.found += [_copied(each) for each in found.found]
        if not copies and not errors:
            made = self._finished(TransferKind.VIRTUAL, joint, shape, attrs or {})
            self._tell_codecs(made)
            return replace(made, split=split, chunks=(split, *made.chunks[1:])) if split else made
        made = self._native(joint, shape, attrs)
        if joint.has_base or not self.wanted.checksum:
            return made
        return replace(made, encoding=with_checksums(made.encoding))

    def _tell_codecs(self, array: PlannedArray) -> None:
        """Say which packages readers of an array need beside zarr."""
        names = [codec["name"] for codec in json.loads(array.encoding)["codecs"]]
        needed = {
            package
            for name in names
            for start, package in CODEC_PACKAGES.items()
            if name.startswith(start)
        }
        if needed:
            self.findings.note(
                "codecs", f"readers need the package {' and '.join(sorted(needed))}", (), array.name
            )

    def _native(
        self, joint: JoinedVariable, shape: Shape, attrs: dict[str, Any] | None
    ) -> PlannedArray:
        """An array that is copied: chunks as wanted, codecs of our own."""
        made = self._finished(TransferKind.NATIVE, joint, shape, attrs or {})
        dtypes = {encoded_dtype(part.encoding) for part in joint.parts}
        itemsize = max(1, *(dtype.itemsize for dtype in dtypes))
        scans = [self.scans[number] for number in made.files]
        check_expansion([*zip(scans, joint.own, strict=True)], itemsize, self.findings)
        if joint.has_base:
            return made
        chunks = copied_chunks(made.dims, shape, made.chunks, self.wanted.chunks, itemsize)
        check_chunk_sizes(joint.name, chunks, itemsize, self.findings)
        compressor = self.wanted.compressor
        if attrs is not None:
            encoding = (
                renewed(joint.parts[0].encoding, compressor)
                if len(dtypes) == 1
                else native_encoding(np.result_type(*dtypes), None, compressor)
            )
            return replace(made, chunks=chunks, encoding=encoding)
        dtype = np.result_type(
            *(
                apply_cf(np.zeros(0, encoded_dtype(part.encoding)), part.attrs)
                for part in joint.parts
            )
        )
        plain = comparing.decoded_attrs(joint.parts[0].attrs)
        if dtype.kind == "f":
            plain |= encoded_attributes(np.nan, dtype)
        return replace(
            made,
            chunks=chunks,
            encoding=native_encoding(dtype, np.nan if dtype.kind == "f" else None, compressor),
            attrs=plain,
            is_decoded=True,
        )

    def _finished(
        self, kind: TransferKind, joint: JoinedVariable, shape: Shape, attrs: Mapping[str, Any]
    ) -> PlannedArray:
        first = joint.parts[0]
        made = PlannedArray(
            name=joint.name,
            kind=kind,
            dims=joint.dims,
            shape=shape,
            chunks=with_new_axes(first.chunks, len(joint.dims)),
            encoding=first.encoding,
            attrs=attrs,
            files=tuple(joint.files[1:] if joint.has_base else joint.files),
            base_shape=first.shape if joint.has_base else None,
        )
        if joint.has_base and kind is not TransferKind.VIRTUAL:
            self._require_one_way(made)
        return made

    def _require_one_way(self, array: PlannedArray) -> None:
        """Values can be put behind others along one dimension only."""
        assert array.base_shape is not None
        pairs = zip(array.dims, array.base_shape, array.shape, strict=True)
        growing = [dim for dim, old, new in pairs if old != new]
        if len(growing) > 1:
            detail = f"the array would grow along {' and '.join(growing)} at once; append along one"
            self.findings.error("append", detail, (), array.name)


def _lasting(finding: IngestFinding) -> IngestFinding:
    """What the repository has cannot be decoded anew."""
    if finding.code in ("packing", "dtype"):
        return replace(finding, can_materialize=False)
    return finding


def _copied(finding: IngestFinding) -> IngestFinding:
    if finding.level is not IngestSeverity.ERROR:
        return finding
    return replace(
        finding, level=IngestSeverity.WARNING, message=f"{finding.message}; copied instead"
    )
