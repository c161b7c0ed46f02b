#!/usr/bin/env python3
"""Reduces a run of detector images that lies at a server: background, hot pixels, hits; writes what is worth keeping.

usage: detector_pipeline.py URL-OR-FILE REDUCED.h5

The file is a NeXus one: images in /entry/data/data, one chunk each, and the mask in
/entry/instrument/detector/pixel_mask. It is read twice: some images for the background, then all of them. xhdf5 fetches
ahead what comes next of its own accord; the images of the first pass, which are no row of neighbours, are told to it.
"""
import sys

import h5py
import numpy as np
import xhdf5

BACKGROUND_IMAGES = 16
SIGMAS = 8          # a pixel so far above the background is signal
PEAK_PIXELS = 5     # an image with so many of those is a hit


def background(images, good):
    """Median and spread of each pixel, over images from all of the run."""
    some = np.unique(np.linspace(0, len(images) - 1, BACKGROUND_IMAGES).astype(int))
    for i in some:
        xhdf5.prefetch(images, i)    # all are on their way before the first is waited for
    stack = np.stack([images[i] for i in some])
    level = np.median(stack, axis=0)
    spread = 1.4826 * np.median(np.abs(stack - level), axis=0) + 1
    return np.where(good, level, 0), spread


def reduce(url, name):
    with h5py.File(url, driver="xhdf5") as run, h5py.File(name, "w") as out:
        images = run["entry/data/data"]
        good = run["entry/instrument/detector/pixel_mask"][()] == 0
        level, spread = background(images, good)
        total, hits = np.zeros(images.shape[1:]), []
        for i in range(len(images)):
            signal = np.where(good, images[i] - level, 0)
            total += signal
            if np.count_nonzero(signal > SIGMAS * spread) >= PEAK_PIXELS:
                hits.append(i)
                out.create_dataset(f"hits/{i:06d}", data=signal.astype("f4"), compression="lzf")
        out["mean"] = total / len(images)
        out.attrs["source"] = url
        print(f"{len(images)} images, {len(hits)} hits: {' '.join(map(str, hits[:10]))}")
        print(f"{xhdf5.stats(run)['bytes_fetched'] / 1e6:.1f} MB fetched")


if __name__ == "__main__":
    reduce(*sys.argv[1:])
