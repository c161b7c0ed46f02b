/* Files without HDF5's signature: see unsigned.h. */
#include "unsigned.h"

#include <string.h>

#include "../cache/base/hdf5.h"
#include "../cache/base/letters.h"

#define FIRST_PLACE 512u
#define HTML                                                                                                          \
    "it is a web page, perhaps of a login, or the page about the file: use the address of the file itself (its "       \
    "\"download\" or \"raw\" link)"
#define XML "it is an error of the server's, in XML (as S3 has them): look at it (curl -r 0-999 URL)"
#define CLASSIC                                                                                                       \
    ", which has no HDF5 in it: fetch it (xhdf5 get), and read it with netCDF's library or scipy, or convert it "      \
    "where it lies (nccopy -k nc4)"
#define PACKED ": unpack it, and put that where it lies (HDF5 compresses within a file, by filters)"

/* What a file begins with, in capitals or not. The first that fits counts. |blank|: behind white space
 * and a byte order mark. |also|: what is somewhere in the head, too. */
static const struct {
    const char *begins;
    unsigned char n, blank;
    const char *also, *say;
} known[] = {
    {"CDF\001", 4, 0, NULL, "it is a netCDF-3 file (classic)" CLASSIC},
    {"CDF\002", 4, 0, NULL, "it is a netCDF-3 file (64-bit offset)" CLASSIC},
    {"CDF\005", 4, 0, NULL, "it is a netCDF-3 file (64-bit data, CDF-5)" CLASSIC},
    {"version https://git-lfs", 23, 0, NULL,
     "it is a pointer of Git LFS, in place of the file: use the address of the file itself (at GitHub "
     "https://media.githubusercontent.com/media/OWNER/REPOSITORY/BRANCH/PATH)"},
    {"<!doctype html", 14, 1, NULL, HTML},
    {"<html", 5, 1, NULL, HTML},
    {"<head", 5, 1, NULL, HTML},
    {"<?xml", 5, 1, "<html", HTML},
    {"<?xml", 5, 1, "<Error", XML},
    {"<Error", 6, 1, NULL, XML},
    {"<?xml", 5, 1, NULL, "it is an XML text, perhaps an error of the server's: look at it (curl -r 0-999 URL)"},
    {"{", 1, 1, "\"zarr_",
     "it is metadata of a Zarr store, or kerchunk's list of references, in JSON: read it with zarr or fsspec"},
    {"{", 1, 1, "\"refs\"", "it is kerchunk's list of references, in JSON: read it with fsspec (reference://)"},
    {"{", 1, 1, ".zgroup", "it is kerchunk's list of references, in JSON: read it with fsspec (reference://)"},
    {"{", 1, 1, NULL, "it is a JSON text, perhaps an error of the server's: look at it (curl -r 0-999 URL)"},
    {"[", 1, 1, NULL, "it is a JSON text, perhaps an error of the server's: look at it (curl -r 0-999 URL)"},
    {"\037\213", 2, 0, NULL, "it is packed by gzip" PACKED},
    {"BZh", 3, 0, NULL, "it is packed by bzip2" PACKED},
    {"\3757zXZ", 5, 0, NULL, "it is packed by xz" PACKED},
    {"\050\265\057\375", 4, 0, NULL, "it is packed by zstd" PACKED},
    {"PK\003\004", 4, 0, NULL, "it is a zip archive: unpack it, and put what is in it where it lies"},
    {"PK\005\006", 4, 0, NULL, "it is a zip archive with nothing in it"},
    {"\016\003\023\001", 4, 0, NULL, "it is an HDF4 file: h4toh5 makes HDF5 of it"},
};

static int is_same(const unsigned char *p, const char *text, size_t n)
{
    return xh_strncasecmp((const char *)p, text, n) == 0;
}

const char *xh_unsigned_what(const unsigned char *head, size_t n, uint64_t size)
{
    size_t blank = n >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, zeros = 0;
    while (blank < n && head[blank] && strchr(" \t\r\n", head[blank]))
        blank++;
    while (zeros < n && !head[zeros])
        zeros++;
    if (size == 0)
        return "it is empty, it has 0 bytes. Perhaps its writer has failed, or is not done";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t from = known[i].blank ? blank : 0;
        if (n - from >= known[i].n && is_same(head + from, known[i].begins, known[i].n) &&
            (!known[i].also || xh_memcasestr((const char *)head + from, n - from, known[i].also)))
            return known[i].say;
    }
    if (n >= 262 && is_same(head + 257, "ustar", 5))
        return "it is a tar archive: unpack it, and put what is in it where it lies";
    if (zeros == n)
        return "it begins with zeros. Perhaps its writer has failed, or is not done";
    return "what it begins with is not known here: look at it (curl -r 0-199 URL)";
}

/* Where HDF5 looks next behind |n| places. */
static uint64_t place(unsigned n)
{
    return n == 0 ? 0 : (uint64_t)FIRST_PLACE << (n - 1);
}

int xh_unsigned_look(unsigned *places, uint64_t size, uint64_t off, const void *bytes, size_t len)
{
    if (*places == XH_SEEK_OVER)
        return 0;
    if (len != XH_HDF5_SIGNATURE_BYTES || off != place(*places) || xh_hdf5_is_signed(bytes)) {
        *places = XH_SEEK_OVER;
        return 0;
    }
    ++*places;
    int last = place(*places) > size;
    *places = last ? XH_SEEK_OVER : *places;
    return last;
}
