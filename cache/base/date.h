/* Dates as HTTP and ISO 8601 write them. Pure. */
#ifndef XH_DATE_H
#define XH_DATE_H

#include <stdint.h>

#define XH_DATE_BYTES sizeof "Sun, 06 Nov 1994 08:49:37 GMT"

/* Returns the seconds since 1970 of a date in HTTP's preferred form, the one above, in any locale. -1: it is not one.
 * Not by curl_getdate, which takes a date without seconds or zone too: this one is compared with a file's time.
 * Source: RFC 9110, 5.6.7. */
int64_t xh_http_date(const char *text);

/* Returns the seconds since 1970 of a date as "2026-11-26T09:00:00Z", in any zone. 0: it is not one.
 * Source: RFC 3339. */
long long xh_iso_date(const char *text);

#define XH_NO_DAY INT64_MIN

/* Returns the days since 1970 of a day of the Gregorian calendar, |yyyymmdd| as 20240131: of the years 1000 to 9999.
 * XH_NO_DAY: there is no such day. */
int64_t xh_date_days(long long yyyymmdd);

/* The other way. Returns -1 for days outside of those years. */
long long xh_days_date(int64_t days);

#define XH_DATE_TEXT_BYTES 64
/* Writes the |seconds| since 1970 as "2026-11-26 09:00:00 UTC", "?" where the year has no number. Returns |out|. Not by
 * strftime, which reads TZ: a thread of the engine may call this. */
const char *xh_date_text(int64_t seconds, char out[XH_DATE_TEXT_BYTES]);

#endif
