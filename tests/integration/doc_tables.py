#!/usr/bin/env python3
"""The table in docs/options.md and the manual page xhdf5(7) are those of cache/base/options.def, the table of counters
in docs/python.md is that of cache/watch/stats.def. README names options that there are. With --write, makes them so."""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- options: made from cache/base/options.def -->", "<!-- end of options -->"
COUNTERS, COUNTERS_END = "<!-- counters: made from cache/watch/stats.def -->", "<!-- end of counters -->"

MAN_HEAD = r"""
.\" made from cache/base/options.def by tests/integration/doc_tables.py --write
.TH XHDF5 7 "" "xhdf5" "Miscellaneous"
.SH NAME
xhdf5 \- HDF5 driver that reads https:// and s3:// URLs: its options and environment
.SH DESCRIPTION
A program that uses HDF5 1.14 or later reads https://, http:// and s3:// URLs as files when its environment has
.B HDF5_DRIVER=xhdf5
and
.B HDF5_PLUGIN_PATH
names the directory of the driver, before those of filters: HDF5's own is not looked into when this variable is set.
Local files go on working.
.SH OPTIONS
Each option is set by
.BI XHDF5_ NAME
in the environment (in capitals), by
.IB name = value\fR,\fP...
in
.B HDF5_DRIVER_CONFIG
or a tool's \-\-vfd\-info, or by the field of that name in
.BR H5FD_xhdf5_config_t ;
the later ones win. In the second and third a value with a comma in it stands in quotation marks.
Sizes take k, M and G. In brackets: default, and bounds.
""".lstrip()
MAN_TAIL = r"""
.SH ACCESS
A bearer token is looked for in
.BR BEARER_TOKEN ,
the file
.BR BEARER_TOKEN_FILE ,
.IR $XDG_RUNTIME_DIR/bt_u<uid> ,
.IR /tmp/bt_u<uid> ;
a certificate in
.BR X509_USER_PROXY ,
.B X509_USER_CERT
with
.BR X509_USER_KEY ,
.IR /tmp/x509up_u<uid> .
They go over https only, and to the host that the URL names, or those in
.BR credential_hosts .
S3 is read with the keys of
.BR AWS_ACCESS_KEY_ID ,
.BR AWS_SECRET_ACCESS_KEY ,
.BR AWS_SESSION_TOKEN ,
or of the profile
.B AWS_PROFILE
in
.I ~/.aws/credentials
and
.IR ~/.aws/config ;
without any where there are none.
.BR AWS_REGION ,
.B AWS_ENDPOINT_URL_S3
and
.B AWS_NO_SIGN_REQUEST
are heeded.
Servers' certificates are verified by the option ca_bundle,
.BR CURL_CA_BUNDLE ,
.BR SSL_CERT_FILE ,
the option ca_dir,
.BR X509_CERT_DIR ,
then the system's.
.SH SEE ALSO
.BR xhdf5 (1)
"""


def size(text):
    v = int(text)
    for unit in ("G", "M", "k"):
        step = {"G": 1 << 30, "M": 1 << 20, "k": 1 << 10}[unit]
        if v and v % step == 0:
            return f"{v // step}{unit}"
    return text


def options():
    """(name, default, bounds, text) of each."""
    row = re.compile(r'^X\((\w+),\s*(\w+),\s*("[^"]*"|\d+),\s*(\d+),\s*(\d+),\s*"([^"]*)"\)', re.M)
    for kind, name, default, lo, hi, text in row.findall((TOP / "cache/base/options.def").read_text()):
        if kind == "BOOL":
            default, bounds = ("on" if default == "1" else "off"), "on, off"
        elif kind == "STR":
            default, bounds = default.strip('"') or "(empty)", f"up to {hi} bytes"
        elif kind == "WORD":
            words = default.strip('"').split("|")
            default, bounds = words[0], ", ".join(words)
        elif kind == "SIZE":
            default, bounds = size(default), f"{size(lo)} to {size(hi)}"
        else:
            bounds = f"{lo} to {hi}"
        yield name, default, bounds, text


def table():
    rows = ["| option | default | bounds | meaning |", "|---|---|---|---|"]
    return "\n".join(rows + [f"| `{name}` | {default} | {bounds} | {text} |" for name, default, bounds,
                             text in options()])


def counters():
    row = re.compile(r'^X\((\w+),\s*"([^"]*)",\s*"([^"]*)"\)', re.M)
    rows = row.findall((TOP / "cache/watch/stats.def").read_text())
    return "\n".join(["| counter | unit | |", "|---|---|---|"] +
                     [f"| `{name}` | {unit} | {text} |" for name, unit, text in rows])


def put(path, begin, end, table, write):
    """Whether |table| is what stands in |path| between its marks; with |write| it does from now on."""
    head, rest = path.read_text().split(begin)
    old, tail = rest.split(end)
    if write:
        path.write_text(f"{head}{begin}\n{table}\n{end}{tail}")
    return write or old.strip() == table


def roff(text):
    """Text as troff takes it; a line must not begin with a dot or a quote."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")


def page():
    lines = [MAN_HEAD.rstrip()]
    for name, default, bounds, text in options():
        lines += [".TP", f".BR {name} \" ({roff(default.strip('()'))}; {roff(bounds)})\"", roff(text)]
    return "\n".join(lines + [MAN_TAIL.strip()]) + "\n"


def main():
    write = "--write" in sys.argv
    manual = TOP / "docs/man/xhdf5.7"
    claims = {"the table in docs/options.md is that of options.def": put(TOP / "docs/options.md", BEGIN, END, table(),
                                                                         write),
              "the table of counters in docs/python.md is that of stats.def": put(TOP / "docs/python.md", COUNTERS,
                                                                                  COUNTERS_END, counters(), write)}
    if write:
        manual.write_text(page())
    claims["the manual page xhdf5(7) has the options of options.def"] = manual.exists() and manual.read_text() == page()
    named = set(re.findall(r"\bXHDF5_([A-Z_]+)=", (TOP / "README.md").read_text()))
    claims["README names options that there are"] = named and named <= {name.upper() for name, *_ in options()}
    print(f"1..{len(claims)}")
    for i, (claim, good) in enumerate(claims.items(), 1):
        print(f"{'ok' if good else 'not ok'} {i} - {claim}")
    if not all(claims.values()):
        print("# run tests/integration/doc_tables.py --write")
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
