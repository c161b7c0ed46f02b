/* What a verdict says when S3 refuses: as sentence.h. Pure. */
#ifndef XH_SENTENCE_S3_H
#define XH_SENTENCE_S3_H

#include "attempt.h"
#include "s3.h"

/* 400, 401 or 403, of S3's |code| ("": none): what was sent, and what may have been wrong with it. */
int xh_sentence_s3_refused(const struct xh_attempt *a, const char *code, struct xh_err *err);

/* The clocks differ by too much. */
int xh_sentence_s3_clock(const struct xh_attempt *a, const struct xh_s3_error *e, struct xh_err *err);

#endif
