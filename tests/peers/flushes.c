// FLUSHes over any card: flushes -d DEVICE -x GID_INDEX -p PORT -c CASE [SERVER]
//
// The client writes some bytes and FLUSHes, as CASE says, and prints "client: STATUS" of the FLUSH; the server looks
// whether what was written is there, and nothing else is. Case "many": more of them at a time than there may be READs.
// Then both connect QPs of their own anew and exchange a WRITE, a FLUSH and a SEND: "works afterwards". Exit code 1:
// something else happened, with a word on what.
#define PROGRAM "flushes"
#include "pair.h"

// Names that verbs.h has from rdma-core 45 on, and where ibv_qp_ex has the builder: behind its last one of before.
enum { FLUSH_GLOBAL = 1, FLUSH_PERSISTENT = 2, FLUSH_RANGE = 0, FLUSH_MR = 1, WC_FLUSH = 8, MANY = 4 };
enum { ACCESS_FLUSH_GLOBAL = 1 << 8, QP_EX_WITH_FLUSH = 1 << 11 };
typedef void (*wr_flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
enum { WR_FLUSH_AT = offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void)) };
enum { AT = 64, BYTES = 256 };

static const struct request {
    const char *name;
    int refused_right;  // the region does not have the right
    uint32_t wrong_key; // added to the key
    int64_t offset;     // of the address
    size_t bytes;
    uint8_t type, level;
} REQUESTS[] = {
    {"good", 0, 0, AT, BYTES, FLUSH_GLOBAL, FLUSH_RANGE},
    {"region", 0, 0, -GRANTED, 1 << 20, FLUSH_GLOBAL, FLUSH_MR},
    {"nothing", 0, 0, GRANTED, 0, FLUSH_GLOBAL, FLUSH_RANGE},
    {"many", 0, 0, AT, BYTES, FLUSH_GLOBAL, FLUSH_RANGE},
    {"rkey", 0, 0x100, AT, BYTES, FLUSH_GLOBAL, FLUSH_RANGE},
    {"rights", 1, 0, AT, BYTES, FLUSH_GLOBAL, FLUSH_RANGE},
    {"rights-region", 1, 0, AT, BYTES, FLUSH_GLOBAL, FLUSH_MR},
    {"behind", 0, 0, GRANTED - 8, 9, FLUSH_GLOBAL, FLUSH_RANGE},
    {"persistent", 0, 0, AT, BYTES, FLUSH_PERSISTENT, FLUSH_RANGE},
};
static const struct request *request;

static int choose(const char *name) {
    for (size_t i = 0; i < sizeof REQUESTS / sizeof *REQUESTS; i++)
        if (!strcmp(name, REQUESTS[i].name)) request = &REQUESTS[i];
    return request != NULL;
}

static struct ibv_qp *make(struct side *side) {
    struct ibv_qp_init_attr_ex init = {
        .send_cq = side->cq, .recv_cq = side->cq, .cap = {8, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC, .pd = side->pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_SEND};
    return ibv_create_qp_ex(side->context, &init);
}

static void flush(struct ibv_qp_ex *qp, const struct end *peer) {
    wr_flush build;
    memcpy(&build, (char *)qp + WR_FLUSH_AT, sizeof build);
    if (!build) die("no ibv_wr_flush");
    build(qp, peer->rkey + request->wrong_key, peer->address + request->offset, request->bytes, request->type,
          request->level);
}

// BYTES of DATA, and `count` FLUSHes behind them; the status of the first one that fails.
static int write_and_flush(struct side *side, int count) {
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->qp);
    memset(side->page, DATA, BYTES);
    ibv_wr_start(qp);
    qp->wr_flags = 0;
    ibv_wr_rdma_write(qp, side->peer.rkey, side->peer.address + AT);
    ibv_wr_set_sge(qp, side->local->lkey, (uintptr_t)side->page, BYTES);
    qp->wr_flags = IBV_SEND_SIGNALED;
    for (int i = 0; i < count; i++) flush(qp, &side->peer);
    errno = ibv_wr_complete(qp);
    if (errno) die("post FLUSH");
    for (int i = 0; i < count; i++) {
        int status = complete(side, 0);
        if (status) return status;
        if ((int)side->wc.opcode != WC_FLUSH) die("another completion");
    }
    return 0;
}

static void client(struct side *side) {
    connect_qp(side, ALL);
    move(side->socket, &(char){0}, 1, 0);
    printf("client: %s\n", ibv_wc_status_str(write_and_flush(side, strcmp(request->name, "many") ? 1 : MANY)));
    move(side->socket, "e", 1, 1);
    request = REQUESTS;
    connect_qp(side, ALL);
    move(side->socket, &(char){0}, 1, 0);
    if (write_and_flush(side, 1)) die("FLUSH afterwards");
    post(side, IBV_WR_SEND, 8, 0, 0);
    if (complete(side, 0)) die("SEND");
    move(side->socket, &(char){0}, 1, 0);
}

static void server(struct side *side) {
    const int rights = ALL | ACCESS_FLUSH_GLOBAL;
    connect_qp(side, request->refused_right ? ALL : rights);
    move(side->socket, "r", 1, 1);
    move(side->socket, &(char){0}, 1, 0);
    // The WRITE was good, whatever became of the FLUSH behind it.
    expect_bytes(side, START, START + AT, FILL);
    expect_bytes(side, START + AT, START + AT + BYTES, DATA);
    expect_bytes(side, START + AT + BYTES, PAGE, FILL);
    memset(side->page, FILL, PAGE);
    request = REQUESTS;
    connect_qp(side, rights);
    post_receive(side, 64);
    move(side->socket, "r", 1, 1);
    if (complete(side, 0)) die("receive afterwards");
    expect_bytes(side, START + AT, START + AT + BYTES, DATA);
    move(side->socket, "d", 1, 1);
}

int main(int argc, char **argv) {
    struct side side = {.make = make, .qp_rights = ACCESS_FLUSH_GLOBAL};
    (begin(&side, argc, argv, choose) ? client : server)(&side);
    puts("works afterwards");
    return 0;
}
