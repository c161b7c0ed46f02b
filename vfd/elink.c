/* Observing external links: see elink.h. */
#include "elink.h"

#include "../cache/cache.h"
#include "family.h"
#include "h5err.h"
#include "whose.h"

/* A link that is being followed. It lies on the stack of follow(). */
struct link {
    struct xh_h5 *h5;
    hid_t group; /* the group that holds the link */
    int known;
    struct xh_namer namer; /* valid when |known| */
};

static _Thread_local struct link *following;

static hid_t follow(const char *name, hid_t group, const void *data, size_t size, hid_t lapl, hid_t dxpl)
{
    struct xh_h5 *h5 = xh_h5_of_callback(__builtin_return_address(0));
    H5L_traverse_func_t own = h5 ? atomic_load_explicit(&h5->follow, memory_order_acquire) : NULL;
    if (!own)
        return -1; /* cannot happen: only xh_elink_watch makes HDF5 call this */
    struct link link = {.h5 = h5, .group = group}, *outer = following;
    following = &link;
    hid_t target = own(name, group, data, size, lapl, dxpl);
    following = outer;
    return target;
}

void xh_elink_watch(struct xh_h5 *h5)
{
    const H5L_class_t *there = h5->H5L_find_class ? h5->H5L_find_class(H5L_TYPE_EXTERNAL) : NULL;
    /* the version since HDF5 1.12: the function that follows a link gets a transfer list */
    if (!there || there->trav_func == follow || there->version != H5L_LINK_CLASS_T_VERS ||
        there->id != H5L_TYPE_EXTERNAL || !xh_h5_has(h5, (const void *)there->trav_func))
        return;
    struct xh_h5err_quiet quiet;
    H5L_class_t ours = *there;
    atomic_store_explicit(&h5->follow, there->trav_func, memory_order_release); /* pairs with the load in follow() */
    ours.trav_func = follow;
    xh_h5err_quiet(h5, &quiet);
    h5->H5Lregister(&ours);
    xh_h5err_aloud(h5, &quiet);
}

/* Fills |out| for a file of another driver: it has a name, but no server that credentials may go to. */
static void foreign_namer(struct xh_h5 *h5, hid_t group, struct xh_namer *out)
{
    char name[XH_NAMER_PARENT_BYTES] = "";
    if (h5->H5Fget_name(group, name, sizeof name) < 0)
        *name = '\0';
    *out = (struct xh_namer){.by_file = 1, .family = xh_family_new(), .remote = (uint32_t)xh_cache_is_url(name)};
    xh_url_shown(name, out->parent, sizeof out->parent);
}

void xh_elink_namer(struct xh_h5 *h5, struct xh_namer *out)
{
    struct link *link = following;
    if (!link || link->h5 != h5)
        return;
    if (!link->known) {
        struct xh_h5err_quiet quiet;
        link->known = 1;
        xh_h5err_quiet(h5, &quiet);
        const struct xh_namer *namer = xh_whose_namer(h5, link->group);
        if (namer)
            link->namer = *namer;
        else
            foreign_namer(h5, link->group, &link->namer);
        xh_h5err_aloud(h5, &quiet);
    }
    *out = link->namer;
}
