#!/usr/bin/env python3
"""An HTTP/1.1 server for the faults that real servers cannot be made to have. Serves one file.

  liar.py FILE [--host ADDRESS] [--port P] [--tls DIR]
      prints port=N other=N http=N, with --tls also cacert=DIR/ca.pem (a throw-away CA made there);
      `other` is a second port of the same kind, `http` a plain one. Runs until its stdin closes or
      it is killed.

The first part of a URL's path chooses the fault, whatever follows is a name: /truncate/x.h5.
Which requests of a URL (same path) are struck is chosen with @, the others are served honestly:
  /stall/x.h5       every request        /stall@2/x.h5     the first two
  /stall@3-/x.h5    from the third on    /stall@2-4/x.h5   the second to the fourth
A tilde narrows that to one kind of request, and then such alone are counted:
  /stall~0-99/x.h5  those that ask for a byte of [0, 99)
  /stall~date/x.h5  PROPFIND, at a server that is else like XRootD
PROPFIND is not counted; only /xrootd and /xrootd-late answer it, the others refuse it as nginx does.
A fault's argument follows a colon: /slow:50/x.h5, /503:2@1~0-99/x.h5.

  /_stats        JSON: {path: [{"method", "range", "if_match", "if_none_match", "authorization", "host",
                 "connection", "status", "struck", "signed", "session"}]} in the order of arrival; authorization is true
                 or false, signed (for S3) and session (a token of S3's) too, connection a number, struck whether the
                 fault met it
  /_struck/PATH  waits until a request for PATH was struck, 20 s at most; JSON: all that were
  /_release/PATH lets the requests of PATH go that the fault `held` holds; /_release:N/PATH the first N
  /_reset        forgets all of it, and so starts the counting for @ anew
  /_port         JSON: a new port, for a fault that changes a whole server; /_port:tls one with TLS

Each function under @fault in lies/ is one of them: its names, then what it does. An honest reply is like
nginx's, and is what a fault starts from.
"""
import argparse
import contextlib
import inspect
import os
import pathlib
import sys
import threading

import lies  # noqa: F401
from lies.reply import FAULTS, Shared
from lies.server import Server, tls_contexts


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                epilog="faults:\n" + "\n".join(
                                    f"  {name:<23} {inspect.getdoc(f).splitlines()[0]}" for name, f in FAULTS.items()))
    p.add_argument("file")
    p.add_argument("--host", metavar="ADDRESS", default=Server.host)
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--tls", metavar="DIR")
    args = p.parse_args()
    data = pathlib.Path(args.file).read_bytes()
    Server.host = args.host
    Shared.contexts = tls_contexts(args.tls) if args.tls else {}
    context = Shared.contexts.get("right")
    servers = {"port": Server(args.port, data, context), "other": Server(0, data, context), "http": Server(0, data)}
    for name, server in servers.items():
        Shared.ports[name] = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
    cacert = f" cacert={os.path.abspath(args.tls)}/ca.pem" if args.tls else ""
    print(" ".join(f"{k}={v}" for k, v in Shared.ports.items()) + cacert, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
