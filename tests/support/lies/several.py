"""Replies to several ranges; single ranges are answered honestly."""
from .reply import BOUNDARY, Reply, fault, honest_reply, multipart, on_several, part


@fault("several-hang-up")
def hang_up(r):
    """A close instead of a reply, as of a program in which such a request is an error."""
    if r.ranges and len(r.ranges) > 1:
        r.hang_up()
    else:
        honest_reply(r)


@on_several("multipart-bad-boundary")
def bad_boundary(r, reply):
    """The body's boundary is not the header's."""
    multipart(reply, [part(r.data, a, b, boundary="other") for a, b in r.ranges], boundary="other")


@on_several("multipart-lf")
def bare_lf(r, reply):
    """Lines end in LF alone, as XRootD's: to be understood."""
    multipart(reply, [part(r.data, a, b, eol="\n") for a, b in r.ranges], eol="\n")


@on_several("multipart-overlap")
def overlap(r, reply):
    """Each part comes twice."""
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges for _ in range(2)])


@on_several("multipart-reversed")
def backwards(r, reply):
    """The last range first: allowed."""
    multipart(reply, [part(r.data, a, b) for a, b in reversed(r.ranges)])


@on_several("multipart-joined")
def joined(r, reply):
    """One part from the first range's start to the last one's end: allowed."""
    multipart(reply, [part(r.data, min(a for a, _ in r.ranges), max(b for _, b in r.ranges))])


@on_several("multipart-out-of-range")
def out_of_range(r, reply):
    """A part that says it lies beyond the file."""
    (a, b), *rest = r.ranges
    multipart(reply, [part(r.data, a, b, shift=len(r.data))] + [part(r.data, a, b) for a, b in rest])


@on_several("multipart-shifted")
def shifted(r, reply):
    """The last part is one byte further on than asked, and says so."""
    a, b = r.ranges[-1]
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges[:-1]] + [part(r.data, a, b, shift=1)])


@on_several("multipart-missing-part")
def missing_part(r, reply):
    """The last part is not there."""
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges[:-1]])


@on_several("multipart-unlabelled")
def unlabelled(r, reply):
    """Parts without Content-Range."""
    multipart(reply, [part(r.data, a, b, label=False) for a, b in r.ranges])


@on_several("multipart-other-total")
def other_total(r, reply):
    """The last part tells another size of the file."""
    a, b = r.ranges[-1]
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges[:-1]] + [part(r.data, a, b, total=len(r.data) + 1)])


@on_several("multipart-cut")
def cut(r, reply):
    """Ends in the middle of the last part; Content-Length agrees."""
    multipart(reply, [part(r.data, a, b) for a, b in r.ranges], closing=False)
    a, b = r.ranges[-1]
    reply.set_body(reply.body[:len(reply.body) - (b - a + 1) // 2])


def shorter(reply, r, lacks):
    a, b = r.ranges[0]
    whole = part(r.data, a, b)
    multipart(reply, [whole[:len(whole) - lacks]] + [part(r.data, *span) for span in r.ranges[1:]])


@on_several("multipart-short-part")
def short_part(r, reply):
    """The first part is nine bytes shorter than it says: if it is believed, the next delimiter begins in it."""
    shorter(reply, r, 9)


@on_several("multipart-shorter-part")
def shorter_part(r, reply):
    """The same, by the two bytes of the line's end behind it."""
    shorter(reply, r, 2)


@fault("multipart-endless")
def endless_multipart(r):
    """The first part again and again."""
    if len(r.ranges or ()) < 2:
        return honest_reply(r)
    reply = r.honest()
    reply.headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
    r.send(reply, body=False)
    r.endless(part(r.data, *r.ranges[0]), chunked=True)


@on_several("multipart-long-line")
def long_line(r, reply):
    """A part's header of 5,000 bytes."""
    multipart(reply, [f"\r\n--{BOUNDARY}\r\nX: {'x' * 5000}".encode() + part(r.data, a, b)[len(BOUNDARY) + 4:]
                      for a, b in r.ranges])


@on_several("multipart-many-lines")
def many_lines(r, reply):
    """A part with 1,000 headers."""
    multipart(reply, [f"\r\n--{BOUNDARY}\r\n{1000 * 'X: y\r\n'}".encode() + part(r.data, a, b)[len(BOUNDARY) + 6:]
                      for a, b in r.ranges])


@on_several("multipart-boundary")
def long_boundary(r, reply):
    """A boundary of 1,000 bytes."""
    b = "b" * 1000
    multipart(reply, [part(r.data, *span, boundary=b) for span in r.ranges], boundary=b)
    reply.headers["Content-Type"] = f"multipart/byteranges; boundary={b}"


@on_several("no-multipart")
def only_first(r, reply):
    """206 with the first range alone."""
    r.ranges = r.ranges[:1]
    return r.honest()


@on_several("no-multipart-206")
def whole_in_one(r, reply):
    """206 and all of the file in one range."""
    r.ranges = [(0, len(r.data))]
    return r.honest()


@on_several("multipart-joined-whole")
def joined_whole(r, reply):
    """One part, with all of the file."""
    multipart(reply, [part(r.data, 0, len(r.data))])


@on_several("no-multipart-200")
def whole_instead(r, reply):
    """200 and the whole file."""
    r.ranges = None
    return r.honest()


@on_several("too-many")
def too_many(r, reply):
    """400 to more ranges than the argument says (1)."""
    return Reply(400, b"too many ranges") if len(r.ranges) > int(r.arg or 1) else None
