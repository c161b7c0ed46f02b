# Sourced by box and its parts: messages, and what the host says about itself.
# Names no mirror, no proxy and no index: all of them come from the host's own settings.

say() { printf '[box %4d s] %s\n' "$((SECONDS + ${BOX_T0:-0}))" "$*" >&2; }
die() { printf 'box: %s\n' "$*" >&2; exit 1; }

# A list file without its comments, one word a line.
words() { sed 's/#.*//' "$1" | tr -s ' \t' '\n\n' | grep . || true; }

# Prints "URI suite origin" for each source of this host's apt, which reads sources.list and deb822
# files alike. It knows the origin only where its lists have been fetched; else the address must do.
host_sources() {
    local found
    found=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(ORIGIN)' 'Created-By: Packages' 'Component: main' 2>/dev/null)
    if [ -n "$found" ]; then printf '%s\n' "$found"; return; fi
    apt-get -o Debug::NoLocking=1 --print-uris update 2>/dev/null |
        sed -nE "s,^'([^']*)/dists/([^']*)/(In)?Release'.*,\1 \2 Debian,p"
}

# The Debian mirror that this host's apt uses, whatever suite it has.
host_mirror() {
    local uri suite origin list
    if [ -n "${XHDF5_BOX_MIRROR:-}" ]; then printf '%s\n' "${XHDF5_BOX_MIRROR%/}"; return; fi
    while read -r uri suite origin; do
        [ "$origin" = Debian ] || continue
        case $suite in
            *-security | */updates | *-backports | *-debug) continue ;;
            bookworm* | trixie* | forky* | sid | stable* | oldstable* | testing* | unstable*) ;;
            *) continue ;;
        esac
        case $uri in
            mirror+file:* | mirror:/*)  # cloud images: a file that lists mirrors
                list=${uri#mirror+file:}; list=${list#mirror:}; list=/${list##+(/)}; list=${list%/}
                uri=$(sed 's/[[:space:]].*//' "$list" 2>/dev/null | grep -m1 '^[a-z]') || continue ;;
        esac
        printf '%s\n' "${uri%/}"
        return
    done < <(host_sources)
}

# The host's apt settings that decide whether a mirror can be reached or believed, as apt.conf lines.
host_apt_options() {
    local detect proxy
    apt-config dump --format '%F "%v";%n' Acquire 2>/dev/null |
        grep -E '^Acquire::((https?|ftp|tor)::[^"]*|Check-(Valid-Until|Date)|Retries|ForceIPv[46]|Queue-Mode) "[^"]' |
        grep -viE 'Proxy-Auto-Detect' || true
    eval "$(apt-config shell detect Acquire::http::Proxy-Auto-Detect 2>/dev/null || true)"
    [ -n "${detect:-}" ] || eval "$(apt-config shell detect Acquire::http::ProxyAutoDetect 2>/dev/null || true)"
    if [ -n "${detect:-}" ] && [ -x "$detect" ]; then
        proxy=$("$detect" 2>/dev/null | head -n1 || true)
        case $proxy in *://*) printf 'Acquire::http::Proxy "%s";\n' "$proxy" ;; esac
    fi
    # Credentials of the mirror stay in the host's files.
    [ ! -r /etc/apt/auth.conf ] || echo 'Dir::Etc::netrc "/etc/apt/auth.conf";'
    [ ! -r /etc/apt/auth.conf.d ] || echo 'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";'
}

# The CA bundle that this host's programs use: a private authority is in it if there is one.
host_ca_bundle() {
    local f
    for f in "${SSL_CERT_FILE:-}" "${CURL_CA_BUNDLE:-}" "${REQUESTS_CA_BUNDLE:-}" "${PIP_CERT:-}" \
             /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
        if [ -n "$f" ] && [ -s "$f" ]; then readlink -f "$f"; return; fi
    done
}

# The user's pip configuration, or the machine's.
host_pip_conf() {
    local f
    for f in "${PIP_CONFIG_FILE:-}" "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf" /etc/pip.conf; do
        if [ -n "$f" ] && [ "$f" != /dev/null ] && [ -s "$f" ]; then readlink -f "$f"; return; fi
    done
}

# The user's settings for Go: where modules come from.
host_go_env() {
    local f=${GOENV:-${XDG_CONFIG_HOME:-$HOME/.config}/go/env}
    [ ! -s "$f" ] || readlink -f "$f"
}

# Sets the array $1 to the VAR=value words that a command in the box starts with, and nothing else.
box_env() {
    local -n out=$1
    local v
    out=(HOME=/root USER=root LOGNAME=root LANG=C.UTF-8 "TERM=${TERM:-dumb}" IN_XHDF5_BOX=1 XHDF5_BUILD=/build/plain
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        # the host's bundle lies at Debian's default place; pip and requests bring their own otherwise
        PIP_CERT=/etc/ssl/certs/ca-certificates.crt REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt
        PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
        # the checkout may belong to another user
        GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*')
    for v in $(compgen -e); do
        case $v in
            XHDF5_BOX_* | XHDF5_BUILD | IN_XHDF5_BOX | PIP_CERT | PIP_CONFIG_FILE | PIP_CACHE_DIR | PIP_TARGET | PIP_PREFIX | PIP_USER | PIP_LOG | PIP_REQUIRE_VIRTUALENV) continue ;;
            PIP_FIND_LINKS | PIP_NO_INDEX) case $v in PIP_FIND_LINKS) [ -d "${!v}" ] || [[ ${!v} == *://* ]] || continue ;; esac ;;
            XHDF5_* | PIP_* | http_proxy | https_proxy | ftp_proxy | no_proxy | all_proxy | HTTP_PROXY | HTTPS_PROXY | FTP_PROXY | NO_PROXY | ALL_PROXY) ;;
            GOPROXY | GOSUMDB | GONOSUMDB | GOPRIVATE | GONOPROXY) ;;
            CI | BEARER_TOKEN | MESON_* | NINJA_STATUS | COLORTERM | COLUMNS | LINES) ;;
            *) continue ;;
        esac
        out+=("$v=${!v}")
    done
}
