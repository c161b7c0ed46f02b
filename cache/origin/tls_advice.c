/* Advice: see tls_advice.h. */
#include "tls_advice.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/letters.h"

int xh_tls_is_spoken(const char *said)
{
    static const char *const plain[] = {"wrong version number", "packet length too long", "http request",
                                        "unknown protocol", "record layer failure"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strstr(said, plain[i]))
            return 0;
    return 1;
}

const char *xh_tls_advice(const char *said, long long now_s, char out[XH_TLS_ADVICE_BYTES])
{
    int over = strstr(said, "expired") != NULL;
    if (!xh_tls_is_spoken(said))
        return "This port speaks no TLS: write the port of its https, or http:// if what comes may be read and "
               "changed on its way (no token is sent then)";
    if (over || strstr(said, "not yet valid")) {
        char date[32] = "?";
        time_t now = (time_t)now_s;
        struct tm tm;
        if (gmtime_r(&now, &tm))
            strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm);
        snprintf(out, XH_TLS_ADVICE_BYTES,
                 "Its owner has to renew it%s, unless this machine's clock is wrong: it says %s",
                 over ? "" : ", or it is too new", date);
        return out;
    }
    if (strstr(said, "subject name") || strstr(said, "ostname mismatch") || strstr(said, "does not match target host"))
        return "It is made out to another host: use a name that it has, or ask its owner to add this one";
    if (strstr(said, "revoked"))
        return "Its issuer has withdrawn it: ask the server's owner";
    return NULL;
}

int xh_tls_is_wanted(const char *said)
{
    return strstr(said, "HTTPS port") || strstr(said, "speaking plain HTTP") ||
           xh_strcasestr(said, "to an HTTPS server") || strstr(said, "requires TLS");
}
