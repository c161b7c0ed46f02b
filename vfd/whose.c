/* Finds the driver's part of a file from an ID: see whose.h. */
#include "whose.h"

#include "copies.h"
#include "h5err.h"

static _Thread_local struct {
    int asked;
    struct xh_remote *remote;
    const struct xh_namer *namer;
} question;

int xh_whose_answer(struct xh_remote *remote, const struct xh_namer *namer)
{
    if (question.asked) {
        question.remote = remote;
        question.namer = namer;
    }
    return question.asked;
}

/* Asks for the file's handle. Returns 0, or -1 when |id| belongs to no file, or with |refuses| to one that another copy
 * of the driver has open. */
static int ask(struct xh_h5 *h5, hid_t id, int refuses)
{
    struct xh_h5err_quiet quiet;
    void *handle = NULL;
    hid_t file = h5->H5Iget_file_id(id);
    if (file < 0)
        return -1;
    question.asked = 1;
    question.remote = NULL;
    question.namer = NULL;
    xh_h5err_quiet(h5, &quiet);
    h5->H5Fget_vfd_handle(file, H5P_DEFAULT, &handle); /* another driver's handle is not used */
    xh_h5err_aloud(h5, &quiet);
    question.asked = 0;
    int is_copys = refuses && !question.namer && xh_copies_has(h5, file);
    if (h5->H5Fclose(file) < 0)
        return -1;
    return is_copys ? xh_copies_refuse(h5) : 0;
}

int xh_whose_remote(struct xh_h5 *h5, hid_t id, struct xh_remote **out)
{
    if (ask(h5, id, 1))
        return -1;
    *out = question.remote;
    return 0;
}

const struct xh_namer *xh_whose_namer(struct xh_h5 *h5, hid_t id)
{
    return ask(h5, id, 0) ? NULL : question.namer;
}
