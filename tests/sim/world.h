/* A world: a link, a server with its faults, a file's size, options, readers and what they read. All of it follows from
 * a seed, or from a command line. Threads: as baton.h. */
#ifndef XH_SIM_WORLD_H
#define XH_SIM_WORLD_H

#include "base/options.h"
#include "simwire.h"

#define SIM_READERS_MOST 6
#define SIM_SITES_MOST 4
#define SIM_SOURCE_ROW 8192u /* bytes of a row of a virtual dataset's source */

enum sim_reading {
    SIM_STREAM,    /* from the beginning to the end, in large reads */
    SIM_STEPS,     /* the same in small ones */
    SIM_RANDOM,    /* small reads anywhere */
    SIM_SCATTERED, /* one call for many small pieces */
    SIM_STRIDES,   /* each n-th piece */
    SIM_META,      /* small pieces of metadata, close to each other */
    SIM_HINTED,    /* small reads that were announced */
    SIM_READINGS,
};

/* What an HDF5 file holds and how it is read, through HDF5 and the driver; by one reader, as HDF5 takes one at a
 * time. */
enum sim_h5 {
    SIM_H5_NONE,   /* the file is no HDF5 file, and the cache is called */
    SIM_H5_IMAGES, /* contiguous datasets, one after another */
    SIM_H5_STREAM, /* a contiguous dataset, from the beginning to the end */
    SIM_H5_CHUNKS, /* a dataset in chunks, from the beginning to the end */
    SIM_H5_ROWS,   /* random pieces of a contiguous dataset */
    SIM_H5_WALK,   /* each dataset is opened, its shape looked at and its attribute read */
    SIM_H5_SMALL,  /* small datasets in any order */
    SIM_H5_AFTER,  /* a virtual dataset from the beginning to the end; its sources lie one after another */
    SIM_H5_BESIDE, /* the same; the sources' columns lie side by side */
    SIM_H5_MANY,   /* many files, one after another: open, a dataset's shape, what lies |depth| groups deep, close */
    SIM_H5S,
    /* Of the workloads alone: */
    SIM_H5_SECOND, /* a part of the first source, and then, while it is open, all of the second */
    SIM_H5_ALONE,  /* all of the second source */
    SIM_H5_SLABS,  /* blocks of a contiguous array of three axes: sim_slabs */
    SIM_H5_TURNS,  /* contiguous datasets in turns, a piece of each */
};

/* STEPS: each third piece; PERIOD: 0, 3, 5, 10, 13, 15 and so on; THEN: a quarter, then each second; TWICE: each
 * twice, one read after the other; JUMPS: three runs, each a twentieth of all, from the beginning, the middle and the
 * first quarter; BACK: a twentieth, the last one, and three on from where the first ended; FRO: eight from the
 * beginning, eight from the middle, and so on; ANY: a twentieth, then as many anywhere; ASIDE: the first half, and
 * now and then a long piece of the second; BLOCKS: blocks of 16 in no order, each once; POOL: by |threads|, each of
 * which takes the next piece; SOME: |kept| of ten, by chance. */
enum sim_order {
    SIM_ORDER_UP,
    SIM_ORDER_DOWN,
    SIM_ORDER_STEPS,
    SIM_ORDER_PERIOD,
    SIM_ORDER_THEN,
    SIM_ORDER_JUMPS,
    SIM_ORDER_BACK,
    SIM_ORDER_FRO,
    SIM_ORDER_BLOCKS,
    SIM_ORDER_ANY,
    SIM_ORDER_ASIDE,
    SIM_ORDER_TWICE,
    SIM_ORDER_POOL,
    SIM_ORDER_SOME,
};

/* Another server that has the file. Its link has the rate |then| (bytes per ns) from |changes_ns| on; 0: it stays. */
struct sim_site {
    struct sim_link link;
    uint64_t changes_ns;
    double then;
};

/* An array of bytes, |all| long along each axis. Its blocks are read by loops, the outermost along axis[0], |down|:
 * from the end; or in no order. */
struct sim_slabs {
    uint64_t all[3], block[3];
    unsigned axis[3], down[3], shuffled;
};

struct sim_world {
    uint64_t seed;
    struct sim_link link;
    struct sim_server server;
    struct sim_site site[SIM_SITES_MOST];
    unsigned sites;
    struct sim_object object;
    struct xh_options options;
    unsigned readers;
    enum sim_h5 h5;
    unsigned sets;            /* its datasets */
    unsigned sources;         /* of its virtual dataset, each with a dataset of |set_bytes| */
    struct sim_object *source; /* these; made by sim_h5_make */
    unsigned depth;           /* so many groups deep in each of them lies something; 0: nothing does */
    int walks;                /* the datasets on the way there are opened */
    unsigned kinds;           /* of many files: one of each kind in turn, at most 4; 0 and 1: they are of one */
    int reads_all;            /* of many files: all of each is read, |read_bytes| at once */
    uint64_t set_bytes;       /* of each */
    uint64_t read_bytes;      /* with one call, where that is not a dataset */
    unsigned reads;           /* how many at most; 0: all */
    int latest;               /* the file is written in HDF5's latest format */
    int tree;                 /* its groups are nested, as the bench's */
    double unpack_ns_byte;    /* its chunks are packed, and the reader takes so long for a byte; 0: they are not */
    int grows;                /* its chunked dataset could grow: 1 or 2 ways */
    unsigned threads;         /* of SIM_ORDER_POOL, at most 64 */
    unsigned kept;            /* of SIM_ORDER_SOME, 1 to 10 */
    unsigned each;            /* of many datasets, every so-manieth is looked at, or read; 0 and 1: all */
    unsigned pieces;          /* so many of an order are read; 0: all */
    struct sim_slabs slabs;   /* of SIM_H5_SLABS */
    unsigned row;             /* so many reads at random go on from each place; 0 and 1: each is anywhere */
    enum sim_order order;     /* of the pieces of a stream, or of chunks; SIM_ORDER_UP but in the workloads */
    int large_chunks; /* of 4 MiB, not 1 */
    int shared;               /* the readers have one open file; else each its own */
    enum sim_reading reading[SIM_READERS_MOST];
    uint64_t piece[SIM_READERS_MOST], bytes[SIM_READERS_MOST]; /* of a read; in all */
    uint64_t late_ns;         /* the second reader begins so long after the first one, and is timed; 0: with it */
    unsigned switches;        /* as sim_begin has it */
    uint64_t call_most_ns;    /* longest that one call of the cache may take; 0: any time */
};

/* What came of it. */
struct sim_result {
    int code;            /* the last error of a reader; 0: none */
    uint64_t ns;         /* until the last reader was done, without the opening's share left out */
    uint64_t second_ns;  /* of it, for the second file, or reader; 0: there is none */
    uint64_t bytes;      /* that readers got */
    uint64_t digest;
    char wrong[512];     /* what must not be; "": nothing */
};

/* Makes one of |seed|. */
void sim_world_of(struct sim_world *w, uint64_t seed);

/* Makes one with an ordinary link in which |fault| strikes the |from|-th request or connection, and each one behind
 * that if |forever|, while one reader reads as |reading| or |h5| says. */
void sim_world_of_fault(struct sim_world *w, enum sim_fault fault, unsigned from, int forever, enum sim_dialect dialect,
                        enum sim_reading reading, enum sim_h5 h5);

/* Prints it in a line. */
void sim_world_print(const struct sim_world *w);

/* Writes the HDF5 file that |w| wants in |dir|, and takes it as |w|'s object. Before sim_world_run. */
void sim_h5_make(struct sim_world *w, const char *dir);

/* Reads it at |url|: within sim_world_run. Returns 0, or -1: an HDF5 call failed, and |why| says what. */
int sim_h5_read(const struct sim_world *w, const char *url, uint64_t dice, struct sim_result *out, char *why, size_t size);

/* Its network is there and its clock runs: for programs of another kind than sim_world_run. Once in a process. */
void sim_world_begin(struct sim_world *w);

/* Runs it, once in a process: what hangs ends the process with status 1 and a message. */
void sim_world_run(struct sim_world *w, struct sim_result *out);

/* The best that |n| connections of a plain client bring of |bytes| over |w|'s link. Returns ns. Once in a process. */
uint64_t sim_world_fetch(struct sim_world *w, unsigned n, uint64_t bytes);

/* Stragglers (stragglers.c): how many ways there are; the |i|-th one's name; runs it, once in a process. What must
 * not be is told in |wrong|, what was seen in |seen|. */
unsigned sim_straggler_ways(void);
const char *sim_straggler_name(unsigned i);
void sim_straggler_run(unsigned i, char *seen, size_t seen_size, char *wrong, size_t wrong_size);

/* Targets of redirects that expire (renewals.c): as stragglers. */
unsigned sim_renewals(void);
const char *sim_renewal_name(unsigned i);
void sim_renewal_run(unsigned i, char *seen, size_t seen_size, char *wrong, size_t wrong_size);

/* Losses (recovery.c): as stragglers. */
unsigned sim_losses(void);
const char *sim_loss_name(unsigned i);
void sim_loss_run(unsigned i, char *seen, size_t seen_size, char *wrong, size_t wrong_size);

/* How connections grow (growth.c): as stragglers. */
unsigned sim_growths(void);
const char *sim_growth_name(unsigned i);
void sim_growth_run(unsigned i, char *seen, size_t seen_size, char *wrong, size_t wrong_size);

#endif
