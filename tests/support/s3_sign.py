"""Signatures of S3, version 4, for tests: a client with the standard library alone, to put objects and to sign URLs.
Source: Amazon's documents on signature version 4."""
import datetime
import hashlib
import hmac
import http.client
import re
import ssl
import urllib.parse

REGION = "us-east-1"


def quote(text, safe="/"):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def _key(secret, day, region):
    key = ("AWS4" + secret).encode()
    for word in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key


def _signature(method, path, query, headers, payload, secret, when, region):
    signed = ";".join(sorted(headers))
    canonical = "\n".join([method, path, "&".join(f"{quote(k, '')}={quote(v, '')}" for k, v in sorted(query.items())),
                           "".join(f"{k}:{headers[k].strip()}\n" for k in sorted(headers)), signed, payload])
    scope = f"{when[:8]}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{when}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    return signed, scope, hmac.new(_key(secret, when[:8], region), text.encode(), hashlib.sha256).hexdigest()


def now(shift=0):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=shift)
    return at.strftime("%Y%m%dT%H%M%SZ")


def presigned(url, key, secret, expires=600, shift=0, region=REGION):
    """|url| with a signature in its query, as made |shift| seconds from now."""
    parts, when = urllib.parse.urlsplit(url), now(shift)
    query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Date": when, "X-Amz-Expires": str(expires),
             "X-Amz-SignedHeaders": "host", "X-Amz-Credential": f"{key}/{when[:8]}/{region}/s3/aws4_request"}
    *_, signature = _signature("GET", parts.path, query, {"host": parts.netloc}, "UNSIGNED-PAYLOAD", secret, when,
                               region)
    return url + "?" + urllib.parse.urlencode(query | {"X-Amz-Signature": signature}, quote_via=urllib.parse.quote)


def tell(method, url, key, secret, cacert, body=b"", query=None, region=REGION, headers=(), between=None):
    """Sends a signed request with more |headers|; calls |between|, if given, when half of the body is sent. Returns
    (status, code of S3's error or "", ETag, body)."""
    parts, when, digest = urllib.parse.urlsplit(url), now(), hashlib.sha256(body).hexdigest()
    sent = {"host": parts.netloc, "x-amz-date": when, "x-amz-content-sha256": digest}
    signed, scope, signature = _signature(method, parts.path, query or {}, sent, digest, secret, when, region)
    sent["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={signed}, "
                             f"Signature={signature}")
    path = parts.path + ("?" + urllib.parse.urlencode(query) if query else "")
    server = http.client.HTTPSConnection(parts.netloc, context=ssl.create_default_context(cafile=cacert), timeout=30)

    def halves():
        yield body[:len(body) // 2]
        between()
        yield body[len(body) // 2:]
    length = {"Content-Length": str(len(body))} if between else {}
    server.request(method, path, halves() if between else body, sent | length | dict(headers))
    reply = server.getresponse()
    said = reply.read()
    server.close()
    code = re.search(rb"<Code>(\w+)</Code>", said)
    return reply.status, code[1].decode() if code else "", reply.headers["ETag"], said


def ask(method, url, key, secret, cacert, body=b"", query=None, region=REGION):
    """Sends a signed request. Returns (status, body)."""
    status, _, _, said = tell(method, url, key, secret, cacert, body, query, region)
    return status, said
