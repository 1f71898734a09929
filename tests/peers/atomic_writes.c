// ATOMIC WRITEs over any card: atomic_writes -d DEVICE -x GID_INDEX -p PORT -c CASE [SERVER]
//
// The client writes eight bytes, as CASE says, and prints "client: STATUS"; the server looks whether they are there,
// and nothing else is. Case "torn": the server reads the word all the time while the client writes two values in turn,
// and sees no other. Then both connect QPs of their own anew and exchange an ATOMIC WRITE and a SEND: "works
// afterwards". Exit code 1: something else happened, with a word on what.
#define PROGRAM "atomic_writes"
#include "pair.h"

static const uint64_t WORDS[] = {0x1111111111111111, 0x2222222222222222};
enum { AT = 64, TURNS = 300 };

static const struct request {
    const char *name;
    int rights;
    uint32_t wrong_key; // added to the key
    int64_t offset;     // of the address
    int fails;
} REQUESTS[] = {
    {"good", ALL, 0, AT, 0},
    {"torn", ALL, 0, AT, 0},
    {"rkey", ALL, 0x100, AT, 1},
    {"rights", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, 0, AT, 1},
    {"behind", ALL, 0, GRANTED, 1},
    {"misaligned", ALL, 0, AT + 4, 1},
};
static const struct request *request;

static int choose(const char *name) {
    for (size_t i = 0; i < sizeof REQUESTS / sizeof *REQUESTS; i++)
        if (!strcmp(name, REQUESTS[i].name)) request = &REQUESTS[i];
    return request != NULL;
}

static struct ibv_qp *make(struct side *side) {
    struct ibv_qp_init_attr_ex init = {
        .send_cq = side->cq, .recv_cq = side->cq, .cap = {4, 4, 1, 1, 64}, .qp_type = IBV_QPT_RC, .pd = side->pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_SEND};
    return ibv_create_qp_ex(side->context, &init);
}

static int atomic_write(struct side *side, uint64_t word) {
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->qp);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_write(qp, side->peer.rkey + request->wrong_key, side->peer.address + request->offset, &word);
    errno = ibv_wr_complete(qp);
    if (errno) die("post ATOMIC WRITE");
    int status = complete(side, 0);
    if (!status && side->wc.opcode != IBV_WC_ATOMIC_WRITE) die("another completion");
    return status;
}

static void send_word(struct side *side) {
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->qp);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, side->local->lkey, (uintptr_t)side->page, 8);
    errno = ibv_wr_complete(qp);
    if (errno || complete(side, 0)) die("SEND");
}

static void client(struct side *side) {
    const int turns = strcmp(request->name, "torn") ? 1 : TURNS;
    int status = 0;
    connect_qp(side, ALL);
    move(side->socket, &(char){0}, 1, 0);
    for (int turn = 0; turn < turns && !status; turn++) status = atomic_write(side, WORDS[turn % 2]);
    printf("client: %s\n", ibv_wc_status_str(status));
    move(side->socket, "e", 1, 1);
    request = REQUESTS;
    connect_qp(side, ALL);
    move(side->socket, &(char){0}, 1, 0);
    if (atomic_write(side, WORDS[0])) die("ATOMIC WRITE afterwards");
    send_word(side);
    move(side->socket, &(char){0}, 1, 0);
}

// Reads the word until the client says that it has written: whole at any time.
static void watch(struct side *side) {
    const volatile uint64_t *word = (uint64_t *)(side->page + START + AT);
    const uint64_t before = *word;
    for (char said; recv(side->socket, &said, 1, MSG_DONTWAIT) != 1;)
        for (int look = 0; look < 1000; look++) {
            uint64_t found = *word;
            if (found == before || found == WORDS[0] || found == WORDS[1]) continue;
            fprintf(stderr, PROGRAM ": the word was %#llx\n", (unsigned long long)found);
            exit(1);
        }
}

// The response says that nothing comes before the word any more, not that it is there already: a FLUSH would.
static void expect_word(const struct side *side, uint64_t word) {
    const volatile uint64_t *there = (uint64_t *)(side->page + START + AT);
    for (time_t end = time(NULL) + 10; *there != word && time(NULL) < end;) continue;
    if (*there != word) die("the word");
    expect_bytes(side, START, START + AT, FILL);
    expect_bytes(side, START + AT + 8, PAGE, FILL);
}

static void server(struct side *side) {
    connect_qp(side, request->rights);
    move(side->socket, "r", 1, 1);
    watch(side);
    uint64_t untouched, last = WORDS[strcmp(request->name, "torn") ? 0 : (TURNS - 1) % 2];
    memset(&untouched, FILL, 8);
    expect_word(side, request->fails ? untouched : last);
    request = REQUESTS;
    connect_qp(side, ALL);
    post_receive(side, 64);
    move(side->socket, "r", 1, 1);
    if (complete(side, 0)) die("receive afterwards");
    expect_word(side, WORDS[0]);
    move(side->socket, "d", 1, 1);
}

int main(int argc, char **argv) {
    struct side side = {.make = make};
    (begin(&side, argc, argv, choose) ? client : server)(&side);
    puts("works afterwards");
    return 0;
}
