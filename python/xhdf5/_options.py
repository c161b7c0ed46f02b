"""The driver's options, as Python's values and as a driver configuration string has them."""
from __future__ import annotations

import difflib
import os
import re
from typing import Any

from ._tables import OPTIONS

_TOKEN = ("no header can be set: a token comes from BEARER_TOKEN or a file that BEARER_TOKEN_FILE names, a password from the "
          "URL or, with netrc=True, from ~/.netrc")
_PROXY = "proxies are those of the environment, as curl's: https_proxy, no_proxy"
# What h5py's driver ros3, file systems of fsspec, requests and curl call by another name: of an option, or a sentence.
_ELSEWHERE = {
    "secret_id": "aws_access_key_id", "secret_key": "aws_secret_access_key", "anon": "aws_no_sign_request",
    "block_size": "readahead_bytes", "cache_type": "readahead", "verify": "ca_bundle", "ssl_verify": "ca_bundle",
    "headers": _TOKEN, "client_kwargs": _TOKEN, "auth": _TOKEN, "token": _TOKEN, "bearer_token": _TOKEN,
    "username": _TOKEN, "password": _TOKEN,
    "key": "aws_access_key_id", "secret": "aws_secret_access_key", "cache": "shadow", "ssl": "ca_bundle",
    "verify_ssl": "ca_bundle", "ca_file": "ca_bundle", "cafile": "ca_bundle", "cacert": "ca_bundle",
    "ca_cert": "ca_bundle",
    "cert": "a certificate of yours comes from X509_USER_PROXY, or X509_USER_CERT and X509_USER_KEY",
    "proxy": _PROXY, "proxies": _PROXY,
}
_SUFFIX = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _number(name: str, value: Any) -> int:
    """|value| as an option's number; sizes may have k, M or G behind them."""
    size = OPTIONS[name].type == "SIZE"
    if size and isinstance(value, str):
        parts = re.fullmatch(r"\s*(\d+)\s*([kmg]?)\s*", value, re.I)
        if not parts:
            raise ValueError(f"xhdf5's option {name} is a size like 65536, '64k' or '16M', not {value!r}")
        return int(parts[1]) * _SUFFIX[parts[2].lower()]
    try:
        if isinstance(value, bool):
            raise TypeError
        return int(value.__index__())
    except (AttributeError, TypeError):
        kinds = "int, or a str like '64k'" if size else "int"
        raise TypeError(f"xhdf5's option {name} is of type {kinds}, not {type(value).__name__}") from None


def hint(name: str) -> str:
    """The end of an error about |name|, which is no option: the known one that it is most likely meant for, what to do
    instead, or "". If it is a part of one that is near, it is that one: cache_dir is disk_cache_dir."""
    elsewhere = _ELSEWHERE.get(name)
    if elsewhere:
        return f"; did you mean {elsewhere!r}?" if elsewhere in OPTIONS else f"; {elsewhere}"
    near = difflib.get_close_matches(name, OPTIONS)
    return f"; did you mean {next((option for option in near if name in option), near[0])!r}?" if near else ""


def _written(name: str, value: Any, others: str) -> str:
    """An option as a driver configuration string has it. TypeError, ValueError: it is none."""
    if name not in OPTIONS:
        raise TypeError(f"{name!r} is no option of {others}the driver xhdf5{hint(name)}")
    option = OPTIONS[name]
    if option.type == "BOOL":
        word = value.lower() if isinstance(value, str) else {True: "on", False: "off"}.get(value)
        if word not in ("on", "off"):
            raise TypeError(f"xhdf5's option {name} is True or False, or 'on' or 'off', not {value!r}")
        return f"{name}={word}"
    if option.type == "WORD":
        if not isinstance(value, str) or value.lower() not in option.words:
            kind = ValueError if isinstance(value, str) else TypeError
            raise kind(f"xhdf5's option {name} is one of {', '.join(map(repr, option.words))}, not {value!r}")
        return f"{name}={value}"
    if option.type == "STR":
        if not isinstance(value, (str, os.PathLike)):
            raise TypeError(f"xhdf5's option {name} is of type str, not {type(value).__name__}")
        text = os.fspath(value)
        if not isinstance(text, str) or any(c in text for c in '"\0') or len(text.encode()) > option.max:
            raise ValueError(f"xhdf5's option {name} has at most {option.max} bytes and no quotation mark")
        return f'{name}="{text}"'
    number = _number(name, value)
    if not option.min <= number <= option.max:
        raise ValueError(f"xhdf5's option {name} is from {option.min} to {option.max}, not {number}")
    return f"{name}={number}"


def written(options: dict[str, Any], others: str = "") -> str:
    """The options that are not None, as a driver configuration string. TypeError, ValueError: one is none. |others|:
    whose options the caller has taken out already, "h5py.File nor of "."""
    return ",".join(_written(name, value, others) for name, value in options.items() if value is not None)
