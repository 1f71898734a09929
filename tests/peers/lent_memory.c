// Memory that is lent and taken back, over any card: lent_memory -d DEVICE -x GID_INDEX -p PORT -c CASE [SERVER]
//
// The server binds a window of CASE's type to a part of its region. The client writes and reads through it, and prints
// "through the window: STATUS". Then the window is taken back in CASE's way, or stands while the client asks for more
// than it grants: the client prints "refused: STATUS" of one more request. Nothing but what was lent may have changed.
// Then both connect QPs of their own anew and exchange a WRITE and a SEND: "works afterwards". Exit code 1: something
// else happened, with a word on what.
#define PROGRAM "lent_memory"
#include "pair.h"

enum { LENT_AT = 256, LENT = 512, BYTES = 64 };
enum taken { STANDS, UNBOUND, LOCALLY, BY_SEND };

static const struct lease {
    const char *name;
    enum ibv_mw_type type;
    int rights;                // of the window
    enum taken taken;
    enum ibv_wr_opcode opcode; // of what is refused
    int64_t offset;            // of its address from the window's
} LEASES[] = {
    {"type-1-behind", IBV_MW_TYPE_1, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, STANDS, IBV_WR_RDMA_WRITE,
     LENT - 32},
    {"type-1-before", IBV_MW_TYPE_1, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, STANDS, IBV_WR_RDMA_READ, -32},
    {"type-1-unbound", IBV_MW_TYPE_1, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, UNBOUND, IBV_WR_RDMA_WRITE, 0},
    {"type-2-behind", IBV_MW_TYPE_2, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, STANDS, IBV_WR_RDMA_READ,
     LENT - 32},
    {"type-2-rights", IBV_MW_TYPE_2, IBV_ACCESS_REMOTE_WRITE, STANDS, IBV_WR_RDMA_READ, 0},
    {"type-2-locally", IBV_MW_TYPE_2, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, LOCALLY, IBV_WR_RDMA_WRITE, 0},
    {"type-2-by-send", IBV_MW_TYPE_2, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, BY_SEND, IBV_WR_RDMA_WRITE, 0},
};
static const struct lease *lease;

static int choose(const char *name) {
    for (size_t i = 0; i < sizeof LEASES / sizeof *LEASES; i++)
        if (!strcmp(name, LEASES[i].name)) lease = &LEASES[i];
    return lease != NULL;
}

static void succeed(struct side *side, const char *what) {
    int status = complete(side, 0);
    if (!status) return;
    fprintf(stderr, PROGRAM ": %s: %s\n", what, ibv_wc_status_str(status));
    exit(1);
}

static void signal_peer(struct side *side) { move(side->socket, "w", 1, 1); }

static void wait_peer(struct side *side) { move(side->socket, &(char){0}, 1, 0); }

// Without a sent key: what the window's key is from now on.
static void bind_window(struct side *side, struct ibv_mw *window, uint32_t length) {
    struct ibv_mw_bind_info info = {side->granted, (uintptr_t)side->page + START + LENT_AT, length, lease->rights};
    if (lease->type == IBV_MW_TYPE_1) {
        struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = info};
        if (ibv_bind_mw(side->qp, window, &bind)) die("bind a window of type 1");
    } else {
        uint32_t rkey = ibv_inc_rkey(window->rkey);
        struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
                                 .bind_mw = {.mw = window, .rkey = rkey, .bind_info = info}}, *bad;
        if (ibv_post_send(side->qp, &wr, &bad)) die("bind a window of type 2");
        window->rkey = rkey;
    }
    succeed(side, "bind");
}

// SEND_WITH_INV and LOCAL_INV.
static void invalidate(struct side *side, enum ibv_wr_opcode opcode, uint32_t rkey) {
    struct ibv_sge sge = {(uintptr_t)side->page, BYTES, side->local->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = opcode == IBV_WR_SEND_WITH_INV, .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey}, *bad;
    if (ibv_post_send(side->qp, &wr, &bad)) die("post an invalidation");
    succeed(side, "invalidate");
}

static void take_back(struct side *side, struct ibv_mw *window) {
    if (lease->taken == UNBOUND) bind_window(side, window, 0);
    if (lease->taken == LOCALLY) invalidate(side, IBV_WR_LOCAL_INV, window->rkey);
    if (lease->taken != BY_SEND) return;
    succeed(side, "receive");
    // soft-RoCE gives programs the kernel's bit for it, which here is another one.
    const unsigned told = IBV_WC_WITH_INV | 1 << 2;
    if (side->wc.wc_flags & told && side->wc.invalidated_rkey == window->rkey) return;
    fprintf(stderr, PROGRAM ": the SEND took back key 0x%x (flags 0x%x), not 0x%x\n", side->wc.invalidated_rkey,
            side->wc.wc_flags, window->rkey);
    exit(1);
}

static void server(struct side *side) {
    const int from = START + LENT_AT;
    connect_qp(side, ALL | IBV_ACCESS_MW_BIND);
    struct ibv_mw *window = ibv_alloc_mw(side->pd, lease->type);
    if (!window) die("allocate a window");
    bind_window(side, window, LENT);
    post_receive(side, BYTES);
    move(side->socket, &window->rkey, sizeof window->rkey, 1);
    wait_peer(side); // it has written and read
    expect_bytes(side, from, from + BYTES, DATA);
    take_back(side, window);
    signal_peer(side);
    wait_peer(side); // it has been refused
    expect_bytes(side, 0, lease->taken == BY_SEND ? BYTES : 0, DATA);
    expect_bytes(side, lease->taken == BY_SEND ? BYTES : 0, from, FILL);
    expect_bytes(side, from, from + BYTES, DATA);
    expect_bytes(side, from + BYTES, PAGE, FILL);
    if (ibv_destroy_qp(side->qp) || ibv_dealloc_mw(window)) die("free the window");
    side->qp = NULL;
    for (struct ibv_wc wc; ibv_poll_cq(side->cq, 1, &wc);) continue;
    connect_qp(side, ALL);
    post_receive(side, BYTES);
    signal_peer(side);
    succeed(side, "receive afterwards");
    expect_bytes(side, 0, BYTES, DATA);
    expect_bytes(side, START, START + BYTES, DATA);
    signal_peer(side);
}

static void client(struct side *side) {
    uint32_t rkey;
    connect_qp(side, ALL);
    move(side->socket, &rkey, sizeof rkey, 0);
    const uint64_t address = side->peer.address + LENT_AT;
    memset(side->page, DATA, START);
    post(side, IBV_WR_RDMA_WRITE, BYTES, address, rkey);
    succeed(side, "WRITE through the window");
    if (lease->rights & IBV_ACCESS_REMOTE_READ) {
        memset(side->page, 0, BYTES);
        post(side, IBV_WR_RDMA_READ, BYTES, address, rkey);
        succeed(side, "READ through the window");
        expect_bytes(side, 0, BYTES, DATA);
    }
    printf("through the window: %s\n", ibv_wc_status_str(side->wc.status));
    if (lease->taken == BY_SEND) invalidate(side, IBV_WR_SEND_WITH_INV, rkey);
    signal_peer(side);
    wait_peer(side); // it has taken the window back, where it does
    post(side, lease->opcode, BYTES, address + lease->offset, rkey);
    printf("refused: %s\n", ibv_wc_status_str(complete(side, 0)));
    expect_bytes(side, 0, BYTES, DATA);
    signal_peer(side);
    connect_qp(side, ALL);
    wait_peer(side);
    post(side, IBV_WR_RDMA_WRITE, BYTES, side->peer.address, side->peer.rkey);
    succeed(side, "WRITE afterwards");
    post(side, IBV_WR_SEND, BYTES, 0, 0);
    succeed(side, "SEND afterwards");
    wait_peer(side);
}

int main(int argc, char **argv) {
    struct side side = {0};
    (begin(&side, argc, argv, choose) ? client : server)(&side);
    puts("works afterwards");
    return 0;
}
