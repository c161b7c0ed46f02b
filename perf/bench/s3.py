#!/usr/bin/env python3
"""An S3 server at the far end of the link: versitygw, with the files that are to be read in a bucket.

As a program, run there: s3.py DIRECTORY ADDRESS FILE...  starts it and fills it; DIRECTORY/serve.json has what it says.
Anybody may read the bucket, so that curl shows the raw limit; who has keys signs.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

from . import lab

BUCKET, ID, SECRET, REGION = "bench", "AKIDOFTHEBENCH", "secret/of+the+bench", "us-east-1"
KEYS = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
PORT = 443      # as Amazon: ROS3 signs a Host without a port


class Gateway(lab.Server):
    """As the bench's other servers."""

    def __init__(self, directory, files):
        if not shutil.which("versitygw"):
            raise lab.Skipped("no versitygw: containers/extras could not make it")
        self.kind, self.twin, self.opened, self.begun, self.sent, self.root_port = "s3", None, 0, 0, 0, None
        self.directory, self.serve = directory, self
        words = [lab.TOP / "perf/wan", "server", sys.executable, "-m", "bench.s3", directory, lab.SERVER_IP, *files]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, cwd=lab.TOP / "perf",
                              env=lab.clean_env() | {"XHDF5_WAN_DIR": os.environ["XHDF5_WAN_DIR"]})
        if done.returncode:
            raise lab.Failed(f"s3: {done.stderr.strip()}")
        self.end = (pathlib.Path(os.environ["XHDF5_WAN_DIR"]) / "server").read_text().split()[0]
        self.state = json.loads((directory / "serve.json").read_text())
        self.url, self.cacert, self.port = self.state["url"], self.state["cacert"], PORT
        # Whoever signs finds keys, and xhdf5 knows by the endpoint that these URLs are S3's.
        os.environ.update(KEYS | {"AWS_ENDPOINT_URL_S3": f"https://{lab.SERVER_IP}"})

    def forget(self):
        self.begun, self.sent, self.opened = os.path.getsize(self.state["log"]), self.octets(), self.accepted()

    def octets(self):
        """What the far end has sent, with all headers: the gateway's log has no bytes."""
        names, values = (line.split() for line in pathlib.Path(f"/proc/{self.end}/net/netstat").read_text().splitlines()
                         if line.startswith("IpExt:"))
        return int(values[names.index("OutOctets")])

    def count(self, state):
        with open(state["log"], "rb") as f:
            f.seek(self.begun)
            return f.read().count(b" s3_"), self.octets() - self.sent

    def asked(self):
        return [], 0

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.state["pid"], signal.SIGKILL)


def main():
    sys.path[:0] = [str(lab.TOP / "tests/support"), str(lab.TOP / "server")]
    import s3_sign
    import throwaway_ca
    directory, addr, files = pathlib.Path(sys.argv[1]), sys.argv[2], map(pathlib.Path, sys.argv[3:])
    for name in ("ca", "root", "meta", "iam"):
        (directory / name).mkdir(parents=True)
    throwaway_ca.make_ca(directory / "ca")
    throwaway_ca.make_server(directory / "ca", directory / "ca", addr)
    log, cacert, base = directory / "access.log", directory / "ca/ca.pem", f"https://{addr}"
    words = ["versitygw", "--port", f"{addr}:{PORT}", "--cert", directory / "ca/server.pem", "--key",
             directory / "ca/server.key", "--access-log", log, "--iam-dir", directory / "iam", "--quiet",
             "--keep-alive", "posix", "--sidecar", directory / "meta", directory / "root"]
    with open(directory / "out", "w") as out:
        gateway = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   env=os.environ | {"ROOT_ACCESS_KEY": ID, "ROOT_SECRET_KEY": SECRET},
                                   start_new_session=True)
    end = time.monotonic() + 20
    while not answers(addr) and time.monotonic() < end:
        time.sleep(0.02)

    def ask(path, body=b"", query=None):
        status, said = s3_sign.ask("PUT", base + path, ID, SECRET, str(cacert), body, query)
        if status not in (200, 204):
            raise RuntimeError(f"PUT {path}: {status} {said}")
    try:
        ask(f"/{BUCKET}")
        for file in files:
            ask(f"/{BUCKET}/{file.name}", file.read_bytes())
        ask(f"/{BUCKET}", json.dumps({"Statement": [{"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"],
            "Resource": f"arn:aws:s3:::{BUCKET}/*"}]}).encode(), {"policy": ""})
    except BaseException:
        gateway.kill()
        raise
    (directory / "serve.json").write_text(json.dumps({
        "url": f"{base}/{BUCKET}/", "cacert": str(cacert), "pid": gateway.pid, "log": str(log)}))


def answers(addr):
    with contextlib.suppress(OSError), socket.create_connection((addr, PORT), timeout=2):
        return True
    return False


if __name__ == "__main__":
    main()
