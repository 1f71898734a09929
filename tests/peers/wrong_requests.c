// Requests that a peer must refuse, over any card: wrong_requests -d DEVICE -x GID_INDEX -p PORT -c CASE [SERVER]
//
// Both ends have a connected RC QP and a page with a region in its middle. The client posts the request that CASE names
// and prints "client: STATUS"; the server prints "server: STATUS" of its receive, or "server: nothing received", and
// fails when a byte outside of what was granted has changed. Then both connect QPs of their own anew and exchange a
// good WRITE, atomics whose originals and result are known, and a SEND: "works afterwards". Exit code 1: something else
// happened, with a word on what.
#include <errno.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

// Words of the atomics: what memory is filled with, and what stands there in the end.
static const uint64_t UNTOUCHED = 0x5a5a5a5a5a5a5a5a, SWAPPED = 0x1122334455667788;

enum { PAGE = 8192, START = 2048, GRANTED = 1024, FILL = 0x5a, DATA = 0xa7, LIMIT_S = 60, TIMEOUT = 18 };

static void die(const char *what) {
    fprintf(stderr, "wrong_requests: %s: %s\n", what, strerror(errno));
    exit(1);
}

// What an end tells the other one.
struct end {
    union ibv_gid gid;
    uint64_t address;
    uint32_t qpn, psn, rkey, unused;
};

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *local, *granted;
    struct ibv_qp *qp;
    struct end peer;
    unsigned char *page;
    int gid_index, socket;
};

struct request {
    const char *name;
    enum ibv_wr_opcode opcode;
    int rights;           // of the server's region
    uint32_t wrong_key;   // added to its key
    int64_t offset;       // of the address
    uint32_t bytes;
    uint32_t receive;     // bytes of the server's buffer
};

static const int ALL =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
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

static void open_device(struct side *side, const char *name) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    for (int i = 0; list && list[i]; i++)
        if (!strcmp(ibv_get_device_name(list[i]), name)) side->context = ibv_open_device(list[i]);
    if (!side->context) die(name);
    side->pd = ibv_alloc_pd(side->context);
    side->cq = ibv_create_cq(side->context, 16, NULL, NULL, 0);
    side->page = aligned_alloc(4096, PAGE);
    if (!side->pd || !side->cq || !side->page) die("resources");
    memset(side->page, FILL, PAGE);
    side->local = ibv_reg_mr(side->pd, side->page, PAGE, IBV_ACCESS_LOCAL_WRITE);
    if (!side->local) die("region");
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask) {
    errno = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
    if (errno) die("modify QP");
}

static void move(int fd, void *buffer, size_t bytes, int sends) {
    for (char *at = buffer; bytes;) {
        ssize_t done = sends ? write(fd, at, bytes) : read(fd, at, bytes);
        if (done <= 0) die("the other end");
        at += done, bytes -= done;
    }
}

// A fresh QP and a fresh region with these rights, connected with the peer's.
static void connect_qp(struct side *side, int rights) {
    if (side->qp && ibv_destroy_qp(side->qp)) die("destroy QP");
    if (side->granted && ibv_dereg_mr(side->granted)) die("deregister");
    side->granted = ibv_reg_mr(side->pd, side->page + START, GRANTED, rights);
    struct ibv_qp_init_attr init = {
        .send_cq = side->cq, .recv_cq = side->cq, .cap = {4, 4, 1, 1}, .qp_type = IBV_QPT_RC};
    side->qp = ibv_create_qp(side->pd, &init);
    if (!side->granted || !side->qp) die("region and QP");
    modify(side->qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL},
           IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    struct end mine = {.address = (uintptr_t)side->page + START, .qpn = side->qp->qp_num,
                       .psn = lrand48() & 0xffffff, .rkey = side->granted->rkey};
    if (ibv_query_gid(side->context, 1, side->gid_index, &mine.gid)) die("GID");
    move(side->socket, &mine, sizeof mine, 1);
    move(side->socket, &side->peer, sizeof side->peer, 0);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = side->peer.qpn, .rq_psn = side->peer.psn,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = 1,
                    .grh = {.dgid = side->peer.gid, .sgid_index = side->gid_index, .hop_limit = 64}}};
    modify(side->qp, attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    modify(side->qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = mine.psn, .timeout = TIMEOUT,
                                          .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1},
           IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void post_receive(struct side *side, uint32_t bytes) {
    struct ibv_sge sge = {(uintptr_t)side->page, bytes, side->local->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    if (ibv_post_recv(side->qp, &wr, &bad)) die("post receive");
}

static void post(struct side *side, enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t address, uint32_t rkey) {
    struct ibv_sge sge = {(uintptr_t)side->page, bytes, side->local->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {address, rkey}}, *bad;
    if (ibv_post_send(side->qp, &wr, &bad)) die("post send");
}

static void post_atomic(struct side *side, enum ibv_wr_opcode opcode, uint64_t address, uint32_t rkey,
                        uint64_t compare_add, uint64_t swap) {
    struct ibv_sge sge = {(uintptr_t)side->page, 8, side->local->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
                             .wr.atomic = {address, compare_add, swap, rkey}}, *bad;
    if (ibv_post_send(side->qp, &wr, &bad)) die("post atomic");
}

// The next completion, or -1 where none has come until something can be read from the socket.
static int complete(struct side *side, int or_word) {
    for (time_t end = time(NULL) + LIMIT_S; time(NULL) < end;) {
        struct ibv_wc wc;
        int count = ibv_poll_cq(side->cq, 1, &wc);
        if (count < 0) die("poll");
        if (count) return wc.status;
        char word;
        if (or_word && recv(side->socket, &word, 1, MSG_DONTWAIT | MSG_PEEK) == 1)
            return ibv_poll_cq(side->cq, 1, &wc) ? (int)wc.status : -1;
    }
    errno = ETIME;
    die("completion");
    return -1;
}

static void expect_bytes(const struct side *side, int from, int to, int value) {
    for (int at = from; at < to; at++)
        if (side->page[at] != value) {
            fprintf(stderr, "wrong_requests: byte %d is 0x%02x, not 0x%02x\n", at, side->page[at], value);
            exit(1);
        }
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

static int open_socket(const char *host, const char *port) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE}, *to;
    if (getaddrinfo(host, port, &hints, &to)) die(host ? host : port);
    int fd = socket(to->ai_family, to->ai_socktype, 0);
    if (host) {
        if (connect(fd, to->ai_addr, to->ai_addrlen)) die(host);
        return fd;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) || bind(fd, to->ai_addr, to->ai_addrlen) ||
        listen(fd, 1))
        die(port);
    return accept(fd, NULL, NULL);
}

int main(int argc, char **argv) {
    const char *device = NULL, *port = NULL, *name = NULL;
    struct side side = {0};
    for (int option; (option = getopt(argc, argv, "d:x:p:c:")) != -1;) {
        if (option == 'd') device = optarg;
        else if (option == 'x') side.gid_index = atoi(optarg);
        else if (option == 'p') port = optarg;
        else if (option == 'c') name = optarg;
        else return 2;
    }
    const struct request *request = NULL;
    for (size_t i = 0; i < sizeof REQUESTS / sizeof *REQUESTS; i++)
        if (name && !strcmp(name, REQUESTS[i].name)) request = &REQUESTS[i];
    if (!device || !port || !request) {
        fprintf(stderr, "usage: wrong_requests -d DEVICE -x GID_INDEX -p PORT -c CASE [SERVER]\n");
        return 2;
    }
    srand48(getpid());
    open_device(&side, device);
    const char *host = optind < argc ? argv[optind] : NULL;
    side.socket = open_socket(host, port);
    if (side.socket < 0) die("accept");
    (host ? client : server)(&side, request);
    puts("works afterwards");
    return 0;
}
