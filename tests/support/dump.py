#!/usr/bin/env python3
"""Reads everything in an HDF5 file or URL with h5py and prints a line an object with a digest of
its content. Two readings of the same bytes print the same lines, whatever driver brought them.

  dump.py FILE-OR-URL [--tree] [--time]

Virtual datasets and external links are followed. A link that leads nowhere is printed as such.
--tree lists without reading data; --time prints seconds=… on standard error.
"""
import argparse
import hashlib
import sys
import time

import h5py
import numpy as np

SLAB_BYTES = 32 << 20


def feed(digest, value, owner):
    """Feeds |value|, read from |owner|, so that different values feed different bytes: each piece
    tells its type and length. References feed what they point to: their own bytes mean nothing else."""
    if isinstance(value, h5py.RegionReference):
        region = None
        if value:
            space = h5py.h5r.get_region(value, owner.id)
            region = owner.file[value].name, space.get_select_npoints(), space.get_select_bounds()
        digest.update(f"region{region}".encode())
    elif isinstance(value, h5py.Reference):
        digest.update(f"reference {owner.file[value].name if value else None}".encode())
    elif isinstance(value, np.void) and value.dtype.names:
        feed(digest, np.array([value], value.dtype), owner)
    elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        digest.update(f"plain{np.shape(value)}{value.dtype.descr}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.ndarray) and value.dtype.names:
        digest.update(f"table{value.shape}{value.dtype.names}".encode())
        for name in value.dtype.names:
            feed(digest, value[name], owner)
    elif isinstance(value, np.ndarray):
        digest.update(f"array{value.shape}".encode())
        for item in value.flat:
            feed(digest, item, owner)
    else:
        text = value if isinstance(value, bytes) else repr(value).encode()
        digest.update(f"{type(value).__name__}{len(text)}:".encode() + text)


class Dump:
    def __init__(self, file, listing_only):
        self.file, self.listing_only = file, listing_only
        self.seen = {}

    def digest_of(self, dataset):
        shape, chunks, digest = dataset.shape, dataset.chunks, hashlib.sha256()
        if not shape:
            feed(digest, dataset[()], dataset)
            return digest
        rows = max(1, SLAB_BYTES // max(1, dataset.dtype.itemsize * int(np.prod(shape[1:]))))
        if chunks:
            rows = -(-rows // chunks[0]) * chunks[0]
        for at in range(0, shape[0], rows):
            feed(digest, dataset[at:at + rows], dataset)
        return digest

    def attributes(self, obj):
        attributes, digest = obj.attrs, hashlib.sha256()
        if not len(attributes):
            return "no attributes"
        for name in sorted(attributes):
            digest.update(name.encode() + b"\0")
            feed(digest, attributes[name], obj)
        return f"{len(attributes)} attributes {digest.hexdigest()[:16]}"

    def storage(self, dataset):
        """Layout, filters and fill value as they were asked for at creation."""
        made = dataset.id.get_create_plist()
        filters = [made.get_filter(i) for i in range(made.get_nfilters())]
        words = ["virtual" if dataset.is_virtual else f"chunks {dataset.chunks}" if dataset.chunks else "whole"]
        words += [f"filter {code}{values[:16]}" for code, _, values, _ in filters]  # h5py fills no more
        if made.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
            words.append(f"fill {dataset.fillvalue}")
        return ", ".join(words)

    def link(self, group, name, path):
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            print(f"{path} -> {link.filename}:{link.path}")
        elif isinstance(link, h5py.SoftLink):
            print(f"{path} -> {link.path}")
        try:
            obj = group[name]
        except (KeyError, OSError):
            print(f"{path} leads nowhere")
            return
        self.object(obj, path)

    def object(self, obj, path):
        info = h5py.h5o.get_info(obj.id)
        key = (info.fileno, info.addr)
        if key in self.seen:
            print(f"{path} is {self.seen[key]}")
            return
        self.seen[key] = path
        attributes = self.attributes(obj) if not self.listing_only else f"{len(obj.attrs)} attributes"
        if isinstance(obj, h5py.Group):
            print(f"{path} group, {len(obj)} members, {attributes}")
            for name in obj:
                self.link(obj, name, f"{path.rstrip('/')}/{name}")
        elif isinstance(obj, h5py.Dataset):
            what = f"dataset {obj.shape} {obj.dtype} {self.storage(obj)}"
            digest = "" if self.listing_only else f", {self.digest_of(obj).hexdigest()}"
            print(f"{path} {what}, {attributes}{digest}")
        else:
            print(f"{path} type {obj.dtype}, {attributes}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("--tree", action="store_true")
    p.add_argument("--time", action="store_true")
    args = p.parse_args()
    start = time.monotonic()
    try:
        f = h5py.File(args.file, "r")
    except OSError as why:
        sys.exit(f"dump: {type(why).__name__}: {why}")
    with f:
        Dump(f, args.tree).object(f["/"], "/")
    if args.time:
        print(f"seconds={time.monotonic() - start:.3f}", file=sys.stderr)


if __name__ == "__main__":
    main()
