/* Files without HDF5's signature: where HDF5 looks for it, and what they are instead. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "../../vfd/unsigned.h"

Test(unsigned_what, what_came_in_place_of_an_hdf5_file_is_told_by_its_first_bytes)
{
    static const struct {
        const char *head;
        size_t n;
        const char *said;
    } cases[] = {
        {"CDF\001\0\0\0\3", 8, "netCDF-3 file (classic)"},
        {"CDF\002\0\0\0\3", 8, "netCDF-3 file (64-bit offset)"},
        {"CDF\005\0\0\0\0", 8, "netCDF-3 file (64-bit data, CDF-5)"},
        {"CDF\003\0\0\0\0", 8, "not known"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00", 56, "pointer of Git LFS"},
        {"version 1", 9, "not known"},
        {"<!DOCTYPE html><html>", 21, "web page"},
        {"\xef\xbb\xbf \r\n\t<HTML>", 13, "web page"},
        {"<?xml version='1.0'?><!DOCTYPE html><html xmlns=''>", 51, "web page"},
        {"<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code>", 52, "error of the server's, in XML"},
        {"<Error><Code>AccessDenied", 25, "error of the server's, in XML"},
        {"<?xml version=\"1.0\"?><a/>", 25, "XML text"},
        {"{\"zarr_format\": 2}", 18, "Zarr store"},
        {"{\"version\": 1, \"refs\": {}}", 26, "kerchunk's list"},
        {"{\".zgroup\": \"{}\"}", 17, "kerchunk's list"},
        {"{\"message\": \"no\"}", 17, "JSON text"},
        {"  [1]", 5, "JSON text"},
        {"\037\213\010\0", 4, "packed by gzip"},
        {"BZh91AY", 7, "packed by bzip2"},
        {"\3757zXZ\0", 6, "packed by xz"},
        {"\050\265\057\375", 4, "packed by zstd"},
        {"PK\003\004", 4, "zip archive: unpack"},
        {"PK\005\006", 4, "zip archive with nothing"},
        {"\016\003\023\001", 4, "HDF4 file"},
        {"\0\0\0\0\0\0", 6, "begins with zeros"},
        {"C", 1, "not known"},
        {"<", 1, "not known"},
        {" ", 1, "not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *say = xh_unsigned_what((const unsigned char *)cases[i].head, cases[i].n, cases[i].n);
        cr_expect(strstr(say, cases[i].said), "%s: %s", cases[i].head, say);
    }
    unsigned char tar[XH_UNSIGNED_HEAD] = "x.h5";
    snprintf((char *)tar + 257, 6, "ustar");
    cr_expect(strstr(xh_unsigned_what(tar, sizeof tar, 1 << 20), "tar archive"));
    cr_expect(strstr(xh_unsigned_what(tar, 0, 0), "is empty"));
}

/* HDF5's look at a file of |size| bytes with the signature at |at|. Returns how often the last place was told. */
static int looks(uint64_t size, uint64_t at, unsigned *places)
{
    int told = 0;
    *places = 0;
    for (unsigned n = 8; n == 8 || (uint64_t)1 << n <= size; n++) {
        uint64_t off = n == 8 ? 0 : (uint64_t)1 << n;
        told += xh_unsigned_look(places, size, off, off == at ? "\x89HDF\r\n\x1a\n" : "12345678", 8);
        if (off == at)
            break;
    }
    return told;
}

Test(unsigned_look, the_last_place_is_told_where_the_signature_was_at_none)
{
    static const uint64_t sizes[] = {0, 1, 8, 511, 512, 513, 1023, 1024, 4096, 5000, 1 << 20, (1ull << 40) + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned places;
        cr_expect_eq(looks(sizes[i], UINT64_MAX, &places), 1, "%llu", (unsigned long long)sizes[i]);
        cr_expect_eq(places, XH_SEEK_OVER);
        cr_expect_eq(looks(sizes[i], 0, &places), 0);
        for (uint64_t at = 512; at <= sizes[i]; at *= 2)
            cr_expect_eq(looks(sizes[i], at, &places), 0, "%llu in %llu", (unsigned long long)at,
                         (unsigned long long)sizes[i]);
    }
}

Test(unsigned_look, a_file_that_is_open_is_looked_at_no_more)
{
    unsigned places = 0;
    cr_expect_eq(xh_unsigned_look(&places, 100, 0, "123456789abcdef", 16), 0, "another read than for the signature");
    cr_expect_eq(xh_unsigned_look(&places, 100, 0, "12345678", 8), 0);
    places = 0;
    cr_expect_eq(xh_unsigned_look(&places, 1000, 512, "12345678", 8), 0, "not from the beginning");
    cr_expect_eq(xh_unsigned_look(&places, 1000, 0, "12345678", 8), 0);
}
