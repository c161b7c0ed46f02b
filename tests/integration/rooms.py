#!/usr/bin/env python3
"""The rooms know only whom they may: greps the includes of vfd/, vfd/tool/, cache/, cache/shadow/, cache/origin/, cache/replicas/, cache/sidecar/,
cache/near/, cache/edit/, cache/overlay/."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

COMMON = {"err.h", "env.h", "options.h", "options.def", "stats.h", "stats.def", "trace.h", "timeline.h", "extent.h", "now.h",
          "waits.h", "mistaken.h", "process.h",
          "account.h"}

CALL_HDF5 = {"survey.c", "look.c", "h5open.c", "h5open.h"}
DOCTOR = {"whole.c", "doctor.c", "way.c", "dial.c", "dial.h", "extras.c"}
TELLS_WALL_TIME = {"cache/near/near.c"}    # compares it with the dates of files


def includes(path, marks='<"'):
    return re.findall(r'^\s*#\s*include\s*[%s]([^>"]+)[>"]' % marks, path.read_text(), re.M)


def ours(path):
    """Names of the project's own files that |path| includes."""
    return {pathlib.PurePosixPath(n).name for n in includes(path, '"')}


def main():
    tap = harness.Tap()
    top = harness.TOP
    sources = {room: sorted(p for p in (top / room).glob("*.[ch]"))
               for room in ("vfd", "vfd/tool", "cache", "cache/shadow", "cache/origin", "cache/replicas",
                           "cache/sidecar", "cache/near", "cache/edit", "cache/overlay")}
    names = {room: {p.name for p in files} for room, files in sources.items()}
    for room, files in sources.items():
        tap.ok(bool(files), f"{room} has sources")
        for p in files:
            inc = includes(p)
            bad = []
            if room != "vfd" and p.name not in CALL_HDF5:
                bad += [i for i in inc if re.match(r"(hdf5|H5\w*)\.h$", i)]
            if p.name not in ("transfer.c", "dav.c", "dial.c"):
                bad += [i for i in inc if i.startswith("curl/")]
            if room == "vfd":
                allowed = COMMON | {"cache.h", "near.h", "edit.h"} | names["vfd"]
                inside = names["cache/near"] | names["cache/edit"] | names["cache/overlay"]
                inside |= names["cache"] | names["cache/shadow"] | names["cache/origin"]
                bad += [i for i in ours(p) if i in inside and i not in allowed]
            if room == "vfd/tool":  # sees shadows from outside, and HDF5 through the public interface
                allowed = COMMON | {"cache.h", "image.h", "metaimage.h", "packed.h", "bytes.h", "shadow.h", "edit.h", "xhdf5.h"} | names[room]
                if p.name in DOCTOR:  # asks servers itself, as the origin would
                    allowed = allowed | {"auth.h", "response.h", "url.h", "transfer.h", "proxy.h"}
                bad += [i for i in ours(p) if i not in allowed]
            if room == "cache/shadow":
                bad += [i for i in ours(p) if i in names["cache/origin"] | (names["cache"] - COMMON)
                        and i not in names[room]]
            if room == "cache/origin":
                bad += [i for i in ours(p) if i in names["cache/shadow"] | (names["cache"] - COMMON)
                        and i not in names[room]]
            if room == "cache/near":  # files of the system: a shadow, and no origin
                bad += [i for i in ours(p) if i not in COMMON | {"shadow.h"} | names[room]]
            if room == "cache/replicas":  # sees sites through origin.h
                bad += [i for i in ours(p) if i not in COMMON | {"origin.h"} | names[room]]
            if p.name not in ("metaimage.c", "packed.c", "bake.c", "pack.c"):
                bad += [i for i in inc if i == "zstd.h"]
            if room == "cache/sidecar":  # opens files as vfd/ does, and looks into them
                bad += [i for i in ours(p) if i not in COMMON | {"cache.h", "file.h", "op.h", "opening.h", "shadow.h"} | names[room]]
            if room == "cache/edit":  # opens files as vfd/ does, and sends them through dav.h
                bad += [i for i in ours(p) if i not in COMMON | {"cache.h", "dav.h", "overlay.h", "extents.h"} | names[room]]
            if room == "cache/overlay":
                bad += [i for i in ours(p) if i not in COMMON | names[room]]
            if room == "cache":
                bad += [i for i in ours(p) if i in names["cache/edit"] | names["cache/overlay"]]
                bad += [i for i in ours(p) if i in names["cache/sidecar"] - {"beside.h", "body.h"}]
                bad += [i for i in ours(p) if i in names["cache/replicas"] - {"replicas.h"}]
                bad += [i for i in ours(p) if i in names["cache/shadow"] - {"shadow.h"}]
                bad += [i for i in ours(p) if i in names["cache/origin"] - {"origin.h"} and i not in names["cache"]]
            tap.ok(not bad, f"{room}/{p.name} includes only what it may", f"includes {bad}")
    pure = [top / "cache/sidecar" / f"{m}.c" for m in ("metaimage", "packed", "judge", "version")] + [top / "cache" / f"{m}.c" for m in ("plan", "predict", "metaparse", "metaindex", "contiguous")] + [top / "cache/near/reach.c"] + [top / "cache" / m for m in ("origin/response.c", "origin/link.c", "overlay/extents.c", "replicas/list.c", "replicas/choice.c")]
    chunkindex = sorted((top / "cache/chunkindex").glob("*.[ch]"))
    for p in chunkindex:
        strange = ours(p) - {"extent.h"} - {q.name for q in chunkindex}
        tap.ok(not strange, f"chunkindex/{p.name} knows its own room alone", f"includes {strange}")
    for p in pure + chunkindex:
        io = [i for i in includes(p) if i in ("unistd.h", "fcntl.h", "sys/socket.h", "sys/mman.h", "time.h",
                                               "pthread.h", "stdio.h") and i != "stdio.h"]
        tap.ok(not io, f"{p.name} does no I/O", f"includes {io}")
    mpi = [p.relative_to(top).as_posix() for p in sorted((top / "vfd").rglob("*.[ch]")) + sorted((top / "cache").rglob("*.[ch]"))
           if "mpi.h" in includes(p) and p.parent.name != "mpi" and p.name != "xhdf5_mpi.h"]
    tap.ok(not mpi, "MPI is known in vfd/mpi/ alone", str(mpi))
    reads_env = [p.relative_to(top).as_posix() for files in sources.values() for p in files
                 if p.name != "options.c" and re.search(r"XHDF5_[A-Z]*\"", p.read_text()) and "getenv" in p.read_text()]
    tap.ok(not reads_env, "XHDF5_* variables are read in options.c alone", str(reads_env))
    every = {p.relative_to(top).as_posix(): p.read_text() for room in ("vfd", "cache")
             for p in sorted((top / room).rglob("*.[ch]"))}
    timed = [name for name, text in every.items() if re.search(r"pthread_cond_(timed|clock)wait|sem_timedwait|CLOCK_REALTIME", text)
             and name not in TELLS_WALL_TIME | {"cache/waits.c", "cache/waits.h"}]
    tap.ok(not timed, "waits and intervals go by the monotonic clock alone", str(timed))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
