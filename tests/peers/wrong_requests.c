// Requests that a peer must refuse, over any card: wrong_requests -d DEVICE -x GID_INDEX -p PORT -c CASE [SERVER]
//
// Both ends have a connected RC QP and a page with a region in its middle. The client posts the request that CASE names
// and prints "client: STATUS"; the server prints "server: STATUS" of its receive, or "server: nothing received", and
// fails when a byte outside of what was granted has changed. Then both connect QPs of their own anew and exchange a
// good WRITE, atomics whose originals and result are known, and a SEND: "works afterwards". Exit code 1: something else
// happened, with a word on what.
#define PROGRAM "wrong_requests"
#include "pair.h"

// Words of the atomics: what memory is filled with, and what stands there in the end.
static const uint64_t UNTOUCHED = 0x5a5a5a5a5a5a5a5a, SWAPPED = 0x1122334455667788;

struct request {
    const char *name;
    enum ibv_wr_opcode opcode;
    int rights;           // of the server's region
    uint32_t wrong_key;   // added to its key
    int64_t offset;       // of the address
    uint32_t bytes;
    uint32_t receive;     // bytes of the server's buffer
};

static const struct request REQUESTS[] = {
    {"write-rkey", IBV_WR_RDMA_WRITE, ALL, 0x100, 0, 64, 64},
    {"read-rkey", IBV_WR_RDMA_READ, ALL, 0x100, 0, 64, 64},
    {"write-length", IBV_WR_RDMA_WRITE, ALL, 0, GRANTED - 32, 64, 64},
    {"read-length", IBV_WR_RDMA_READ, ALL, 0, GRANTED - 32, 64, 64},
    {"write-before", IBV_WR_RDMA_WRITE, ALL, 0, -32, 64, 64},
    {"write-rights", IBV_WR_RDMA_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 0, 0, 64, 64},
    {"read-rights", IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 0, 64, 64},
    {"add-rkey", IBV_WR_ATOMIC_FETCH_AND_ADD, ALL, 0x100, 0, 8, 64},
    {"swap-behind", IBV_WR_ATOMIC_CMP_AND_SWP, ALL, 0, GRANTED, 8, 64},
    {"add-rights", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 0, 8, 64},
    {"add-misaligned", IBV_WR_ATOMIC_FETCH_AND_ADD, ALL, 0, 4, 8, 64},
    {"send-length", IBV_WR_SEND, ALL, 0, 0, 512, 64},
};

static void post_atomic(struct side *side, enum ibv_wr_opcode opcode, uint64_t address, uint32_t rkey,
                        uint64_t compare_add, uint64_t swap) {
    struct ibv_sge sge = {(uintptr_t)side->page, 8, side->local->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
                             .wr.atomic = {address, compare_add, swap, rkey}}, *bad;
    if (ibv_post_send(side->qp, &wr, &bad)) die("post atomic");
}

// One that must succeed, and find this.
static void expect_original(struct side *side, enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap,
                            uint64_t original) {
    uint64_t found;
    post_atomic(side, opcode, side->peer.address + 64, side->peer.rkey, compare_add, swap);
    if (complete(side, 0)) die("atomic");
    memcpy(&found, side->page, 8);
    if (found == original) return;
    fprintf(stderr, "wrong_requests: an atomic found %#llx, not %#llx\n", (unsigned long long)found,
            (unsigned long long)original);
    exit(1);
}

static void client(struct side *side, const struct request *request) {
    connect_qp(side, ALL);
    memset(side->page, DATA, START);
    move(side->socket, &(char){0}, 1, 0); // the server has posted its receive
    uint64_t address = side->peer.address + request->offset;
    uint32_t rkey = side->peer.rkey + request->wrong_key;
    if (request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        post_atomic(side, request->opcode, address, rkey, 1, 1);
    else
        post(side, request->opcode, request->bytes, address, rkey);
    printf("client: %s\n", ibv_wc_status_str(complete(side, 0)));
    move(side->socket, "e", 1, 1);
    expect_bytes(side, 0, START, DATA); // no READ has brought anything
    connect_qp(side, ALL);
    move(side->socket, &(char){0}, 1, 0);
    post(side, IBV_WR_RDMA_WRITE, 64, side->peer.address, side->peer.rkey);
    if (complete(side, 0)) die("WRITE afterwards");
    expect_original(side, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, UNTOUCHED);
    expect_original(side, IBV_WR_ATOMIC_CMP_AND_SWP, UNTOUCHED + 5, SWAPPED, UNTOUCHED + 5);
    expect_original(side, IBV_WR_ATOMIC_CMP_AND_SWP, UNTOUCHED, 1, SWAPPED);
    memset(side->page, DATA, 8);
    post(side, IBV_WR_SEND, 64, 0, 0);
    if (complete(side, 0)) die("SEND afterwards");
    move(side->socket, &(char){0}, 1, 0);
}

static void server(struct side *side, const struct request *request) {
    connect_qp(side, request->rights);
    post_receive(side, request->receive);
    move(side->socket, "r", 1, 1);
    int status = complete(side, 1);
    printf("server: %s\n", status < 0 ? "nothing received" : ibv_wc_status_str(status));
    expect_bytes(side, request->receive, PAGE, FILL);
    for (struct ibv_wc wc; ibv_poll_cq(side->cq, 1, &wc);) continue;
    if (status < 0 || request->opcode != IBV_WR_SEND) expect_bytes(side, 0, PAGE, FILL);
    move(side->socket, &(char){0}, 1, 0); // the client's word that it has its answer
    connect_qp(side, ALL);
    post_receive(side, 64);
    move(side->socket, "r", 1, 1);
    if (complete(side, 0)) die("receive afterwards");
    expect_bytes(side, 0, 64, DATA);
    expect_bytes(side, START, START + 64, DATA);
    if (memcmp(side->page + START + 64, &(uint64_t){SWAPPED}, 8)) die("the word of the atomics");
    expect_bytes(side, START + 72, PAGE, FILL);
    move(side->socket, "d", 1, 1);
}

static const struct request *request;

static int choose(const char *name) {
    for (size_t i = 0; i < sizeof REQUESTS / sizeof *REQUESTS; i++)
        if (!strcmp(name, REQUESTS[i].name)) request = &REQUESTS[i];
    return request != NULL;
}

int main(int argc, char **argv) {
    struct side side = {0};
    (begin(&side, argc, argv, choose) ? client : server)(&side, request);
    puts("works afterwards");
    return 0;
}
