// What the programs of this folder have in common: two ends of a connection over any card, each with a page, a region
// in its middle and an RC QP, and a socket between them. PROGRAM is the name of the program.
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { PAGE = 8192, START = 2048, GRANTED = 1024, FILL = 0x5a, DATA = 0xa7, LIMIT_S = 60, TIMEOUT = 18 };

static const int ALL =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static inline void die(const char *what) {
    fprintf(stderr, PROGRAM ": %s: %s\n", what, strerror(errno));
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
    struct ibv_wc wc; // the last completion
    unsigned char *page;
    struct ibv_qp *(*make)(struct side *); // of another kind than a plain one
    int qp_rights; // besides ALL
    int gid_index, socket;
};

static inline void open_device(struct side *side, const char *name) {
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

static inline void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask) {
    errno = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
    if (errno) die("modify QP");
}

static inline void move(int fd, void *buffer, size_t bytes, int sends) {
    for (char *at = buffer; bytes;) {
        ssize_t done = sends ? write(fd, at, bytes) : read(fd, at, bytes);
        if (done <= 0) die("the other end");
        at += done, bytes -= done;
    }
}

// A fresh QP and a fresh region with these rights, connected with the peer's.
static inline void connect_qp(struct side *side, int rights) {
    if (side->qp && ibv_destroy_qp(side->qp)) die("destroy QP");
    if (side->granted && ibv_dereg_mr(side->granted)) die("deregister");
    side->granted = ibv_reg_mr(side->pd, side->page + START, GRANTED, rights);
    struct ibv_qp_init_attr init = {
        .send_cq = side->cq, .recv_cq = side->cq, .cap = {4, 4, 1, 1}, .qp_type = IBV_QPT_RC};
    side->qp = side->make ? side->make(side) : ibv_create_qp(side->pd, &init);
    if (!side->granted || !side->qp) die("region and QP");
    modify(side->qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1,
                                          .qp_access_flags = ALL | side->qp_rights},
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

static inline void post_receive(struct side *side, uint32_t bytes) {
    struct ibv_sge sge = {(uintptr_t)side->page, bytes, side->local->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    if (ibv_post_recv(side->qp, &wr, &bad)) die("post receive");
}

static inline void post(struct side *side, enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t address, uint32_t rkey) {
    struct ibv_sge sge = {(uintptr_t)side->page, bytes, side->local->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {address, rkey}}, *bad;
    if (ibv_post_send(side->qp, &wr, &bad)) die("post send");
}

// The next completion, or -1 where none has come until something can be read from the socket.
static inline int complete(struct side *side, int or_word) {
    for (time_t end = time(NULL) + LIMIT_S; time(NULL) < end;) {
        int count = ibv_poll_cq(side->cq, 1, &side->wc);
        if (count < 0) die("poll");
        if (count) return side->wc.status;
        char word;
        if (or_word && recv(side->socket, &word, 1, MSG_DONTWAIT | MSG_PEEK) == 1)
            return ibv_poll_cq(side->cq, 1, &side->wc) ? (int)side->wc.status : -1;
    }
    errno = ETIME;
    die("completion");
    return -1;
}

static inline void expect_bytes(const struct side *side, int from, int to, int value) {
    for (int at = from; at < to; at++)
        if (side->page[at] != value) {
            fprintf(stderr, PROGRAM ": byte %d is 0x%02x, not 0x%02x\n", at, side->page[at], value);
            exit(1);
        }
}

static inline int open_socket(const char *host, const char *port) {
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

// Words of the command line: -d DEVICE -x GID_INDEX -p PORT -c CASE [SERVER]. Opens device and socket; whether this end
// is the client.
static inline int begin(struct side *side, int argc, char **argv, int (*chosen)(const char *name)) {
    const char *device = NULL, *port = NULL, *name = NULL;
    for (int option; (option = getopt(argc, argv, "d:x:p:c:")) != -1;) {
        if (option == 'd') device = optarg;
        else if (option == 'x') side->gid_index = atoi(optarg);
        else if (option == 'p') port = optarg;
        else if (option == 'c') name = optarg;
        else exit(2);
    }
    if (!device || !port || !name || !chosen(name)) {
        fprintf(stderr, "usage: " PROGRAM " -d DEVICE -x GID_INDEX -p PORT -c CASE [SERVER]\n");
        exit(2);
    }
    srand48(getpid());
    open_device(side, device);
    const char *host = optind < argc ? argv[optind] : NULL;
    side->socket = open_socket(host, port);
    if (side->socket < 0) die("accept");
    return host != NULL;
}
