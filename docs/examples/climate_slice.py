#!/usr/bin/env python3
"""A region and a season out of a netCDF-4 file at a server, with xarray: the file itself is not downloaded.

usage: climate_slice.py URL-OR-FILE VARIABLE SOUTH NORTH WEST EAST
"""
import sys

import numpy as np
import xarray


def main(url, variable, south, north, west, east):
    with xarray.open_dataset(url, engine="xhdf5", stats=True) as data:
        field = data[variable]
        box = field.sel(lat=slice(float(south), float(north)), lon=slice(float(west), float(east)))
        summer = box.sel(time=box.time.dt.month.isin([6, 7, 8]))
        weight = np.cos(np.deg2rad(box.lat))
        by_year = summer.weighted(weight).mean(("lat", "lon")).groupby("time.year").mean()
        for year, value in zip(by_year.year.values, by_year.values):
            print(f"{year} {value:.2f} {field.attrs.get('units', '')}")


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main(*sys.argv[1:])
