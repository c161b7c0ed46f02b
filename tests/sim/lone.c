/* A connection that is alone on its link: see lone.h. */
#include "lone.h"

#include "baton.h"

static struct sim_conn *conn;
static void (*tell)(uint64_t got);
static uint64_t got;

static void arrived(void *ctx)
{
    int ended;
    uint64_t n = sim_conn_readable(conn, &ended);
    sim_conn_read(conn, n);
    got += n;
    if (tell)
        tell(got);
    sim_wake(&got);
}

static void write_all(void *ctx, uint64_t bytes)
{
    sim_conn_write(conn, bytes, 0);
}

void sim_lone_begin(const struct sim_link *link, void (*came)(uint64_t got))
{
    static struct sim_world w;
    w.seed = 1;
    w.link = *link;
    tell = came;
    sim_world_begin(&w);
    conn = sim_conn_new(&w.link, &(struct sim_conn_events){arrived, NULL});
}

void sim_lone_ask(uint64_t bytes, uint64_t ns)
{
    got = 0;
    sim_at(sim_now() + ns, write_all, NULL, bytes);
    while (got < bytes)
        sim_wait(&got, SIM_NEVER);
}
