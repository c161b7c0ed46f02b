/* The C interface, with no plugin path and no network: set, get, copies, bounds, versions,
 * and the order of precedence of the sources of options.
 *
 * The last is seen from inside: this program holds the driver's objects itself. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "fapl.h"
#include "xhdf5.h"

static hid_t new_fapl(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(fapl >= 0);
    return fapl;
}

static void an_unset_config_is_unset_again(void)
{
    H5FD_xhdf5_config_t a = H5FD_XHDF5_CONFIG_INIT, b, c;
    hid_t fapl = new_fapl();
    CHECK(H5Pset_fapl_xhdf5(fapl, NULL) >= 0);
    CHECK(H5Pget_driver(fapl) == H5FD_XHDF5);
    memset(&b, 0xee, sizeof b);
    H5FD_xhdf5_config_init(&b);
    c = b;
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    CHECK(H5Pget_fapl_xhdf5(fapl, &c) >= 0);
    CHECK(memcmp(&b, &c, sizeof b) == 0);
    CHECK(a.connections == H5FD_XHDF5_UNSET && a.ca_bundle == NULL && a.stats == H5FD_XHDF5_UNSET);
    H5Pclose(fapl);
}

static void what_was_set_comes_back_from_every_copy(void)
{
    H5FD_xhdf5_config_t a = H5FD_XHDF5_CONFIG_INIT, b = H5FD_XHDF5_CONFIG_INIT;
    char ca[] = "/some/ca.pem";
    hid_t fapl = new_fapl();
    a.connections = 7;
    a.readahead = 0;
    a.retries = 0;
    a.ca_bundle = ca;
    a.log = "";
    CHECK(H5Pset_fapl_xhdf5(fapl, &a) >= 0);
    ca[0] = 'X'; /* the list has its own */
    hid_t copy = H5Pcopy(fapl);
    CHECK(H5Pequal(copy, fapl) > 0);
    H5Pclose(fapl);
    CHECK(H5Pget_fapl_xhdf5(copy, &b) >= 0);
    CHECK(b.connections == 7 && b.readahead == 0 && b.retries == 0 && b.gap_bytes == H5FD_XHDF5_UNSET);
    CHECK(strcmp(b.ca_bundle, "/some/ca.pem") == 0 && strcmp(b.log, "") == 0 && b.ca_dir == NULL);
    hid_t again = new_fapl();
    CHECK(H5Pset_fapl_xhdf5(again, &b) >= 0 && H5Pequal(copy, again) > 0);
    b.connections = 8;
    CHECK(H5Pset_fapl_xhdf5(again, &b) >= 0 && H5Pequal(copy, again) == 0);
    H5Pclose(again);
    H5Pclose(copy);
}

/* What fapl_get gives HDF5 when there is no memory: a list with it cannot be made, and so no file is opened as the
 * program's. */
static void without_memory_no_list_is_made(void)
{
    hid_t fapl = new_fapl(), before = H5Pget_driver(fapl);
    CHECK(H5Pset_driver(fapl, H5FD_XHDF5, &xh_fapl_no_memory) < 0);
    CHECK(H5Pget_driver(fapl) == before);
    CHECK(xh_fapl_free((void *)(uintptr_t)&xh_fapl_no_memory) == 0);
    CHECK(xh_fapl_give(&xh_fapl_no_memory) == &xh_fapl_no_memory); /* a block that cannot be copied */
    H5Pclose(fapl);
}

static void wrong_values_name_option_value_and_bounds(void)
{
    H5FD_xhdf5_config_t a = H5FD_XHDF5_CONFIG_INIT;
    hid_t fapl = new_fapl(), before = H5Pget_driver(fapl);
    char *longer = calloc(1, 2000);
    a.connections = 65;
    CHECK(H5Pset_fapl_xhdf5(fapl, &a) < 0);
    CHECK_ERROR("connections");
    CHECK_ERROR("65");
    CHECK_ERROR("from 0 to 64");
    a.connections = -2;
    CHECK(H5Pset_fapl_xhdf5(fapl, &a) < 0);
    a.connections = H5FD_XHDF5_UNSET;
    a.ca_dir = memset(longer, 'x', 1999);
    CHECK(H5Pset_fapl_xhdf5(fapl, &a) < 0);
    CHECK_ERROR("ca_dir");
    CHECK(H5Pget_driver(fapl) == before);
    free(longer);
    H5Pclose(fapl);
}

static void a_struct_that_was_not_initialised_is_refused(void)
{
    H5FD_xhdf5_config_t zero, newer = H5FD_XHDF5_CONFIG_INIT, larger = H5FD_XHDF5_CONFIG_INIT;
    hid_t fapl = new_fapl();
    memset(&zero, 0, sizeof zero);
    newer.version++;
    larger.struct_size += 8;
    CHECK(H5Pset_fapl_xhdf5(fapl, &zero) < 0);
    CHECK_ERROR("H5FD_XHDF5_CONFIG_INIT");
    CHECK(H5Pset_fapl_xhdf5(fapl, &newer) < 0 && H5Pset_fapl_xhdf5(fapl, &larger) < 0);
    CHECK(H5Pset_fapl_xhdf5(fapl, NULL) >= 0);
    CHECK(H5Pget_fapl_xhdf5(fapl, &zero) < 0);
    CHECK(zero.version == 0 && zero.connections == 0);
    CHECK(H5Pget_fapl_xhdf5(fapl, NULL) < 0);
    H5Pclose(fapl);
}

static void other_lists_are_refused(void)
{
    H5FD_xhdf5_config_t a = H5FD_XHDF5_CONFIG_INIT;
    hid_t sec2 = new_fapl(), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_fapl_sec2(sec2) >= 0);
    CHECK(H5Pget_fapl_xhdf5(sec2, &a) < 0);
    CHECK_ERROR("another driver");
    CHECK(H5Pset_fapl_xhdf5(dcpl, NULL) < 0);
    CHECK(H5Pset_fapl_xhdf5(-1, NULL) < 0);
    H5Pclose(sec2);
    H5Pclose(dcpl);
}

static uint64_t connections_of(hid_t fapl)
{
    struct xh_options o;
    struct xh_err err = {0};
    struct xh_h5 *h5 = xh_h5_of_program((const void *)connections_of);
    CHECK(h5 && xh_fapl_options(h5, fapl, &o, &err) == 0);
    return o.connections;
}

static void stronger_sources_win(void)
{
    H5FD_xhdf5_config_t a = H5FD_XHDF5_CONFIG_INIT, b = H5FD_XHDF5_CONFIG_INIT;
    hid_t fapl = new_fapl();
    CHECK(H5Pset_fapl_xhdf5(fapl, NULL) >= 0);
    CHECK(connections_of(fapl) == 0);
    setenv("XHDF5_CONNECTIONS", "3", 1);
    CHECK(connections_of(fapl) == 3);
    CHECK(H5Pset_driver_by_name(fapl, "xhdf5", "gap_bytes=1k, connections=4") >= 0);
    CHECK(connections_of(fapl) == 4);
    CHECK(H5Pset_fapl_xhdf5(fapl, &a) >= 0); /* keeps the string */
    CHECK(connections_of(fapl) == 4);
    a.connections = 5;
    CHECK(H5Pset_fapl_xhdf5(fapl, &a) >= 0 && connections_of(fapl) == 5);
    CHECK(H5Pset_fapl_xhdf5(fapl, &b) >= 0 && connections_of(fapl) == 4);
    unsetenv("XHDF5_CONNECTIONS");
    H5Pclose(fapl);
}

static void a_bad_string_is_an_error_that_names_it(void)
{
    hid_t fapl = new_fapl();
    struct xh_options o;
    struct xh_err err = {0};
    struct xh_h5 *h5 = xh_h5_of_program((const void *)connections_of);
    CHECK(H5Pset_driver_by_name(fapl, "xhdf5", "conections=4") >= 0);
    CHECK(xh_fapl_options(h5, fapl, &o, &err) == XH_E_INVAL && strstr(err.text, "nearest known one is connections"));
    CHECK(H5Fopen("https://localhost.invalid/x.h5", H5F_ACC_RDONLY, fapl) < 0);
    CHECK_ERROR("conections");
    H5Pclose(fapl);
}

/* Of a local file only local_shadow is asked for, and of what is wrong nothing is said; so it is for a string that is
 * too long to be handed on to the files that a file names. */
static void a_bad_string_stops_no_local_file(void)
{
    char name[] = "/tmp/xh-fapl-XXXXXX", config[10000];
    int fd = mkstemp(name);
    CHECK(fd >= 0 && close(fd) == 0);
    for (size_t n = 0; n < 9500; n += 9400)
        for (int shadow = 0; shadow < 2; shadow++) {
            snprintf(config, sizeof config, "log=%0*d%s", (int)n + 300, 0, shadow ? ",local_shadow=on" : "");
            hid_t fapl = new_fapl();
            CHECK(H5Pset_driver_by_name(fapl, "xhdf5", config) >= 0);
            hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
            CHECK(shadow ? file < 0 : file >= 0);
            if (shadow)
                CHECK_ERROR("option log");
            else
                CHECK(H5Fclose(file) >= 0);
            H5Pclose(fapl);
        }
    CHECK(unlink(name) == 0);
}

static void *bind(void *out)
{
    *(struct xh_h5 **)out = xh_h5_of_program((const void *)bind);
    return NULL;
}

/* Must be the first: afterwards the table is there. */
static void threads_that_come_first_together_get_one_table(void)
{
    pthread_t t[8];
    struct xh_h5 *table[8];
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&t[i], NULL, bind, &table[i]) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(t[i], NULL) == 0 && table[i] && table[i] == table[0]);
    CHECK(xh_h5_of_callback((const void *)H5Fopen) == table[0]);
    CHECK(xh_h5_of_callback((const void *)strlen) == NULL); /* no libhdf5: says so on standard error */
}

int main(void)
{
    threads_that_come_first_together_get_one_table();
    unsetenv("HDF5_DRIVER");
    unsetenv("HDF5_DRIVER_CONFIG");
    unsetenv("HDF5_PLUGIN_PATH");
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int life = 0; life < 2; life++) { /* H5close() makes every ID void */
        an_unset_config_is_unset_again();
        what_was_set_comes_back_from_every_copy();
        without_memory_no_list_is_made();
        wrong_values_name_option_value_and_bounds();
        a_struct_that_was_not_initialised_is_refused();
        other_lists_are_refused();
        stronger_sources_win();
        a_bad_string_is_an_error_that_names_it();
        a_bad_string_stops_no_local_file();
        CHECK(H5close() >= 0);
        H5open();
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    }
    puts("ok");
    return 0;
}
