// A program that forks with registered memory: fork_child -d DEVICE -x GID_INDEX
//
// It connects a QP with itself and registers two pages of ordinary memory. A child is born, writes over its own pages,
// and waits; only then the parent fills the source, and the card carries it to the target. The parent must find the
// bytes, the child none of them, and a region that is registered while the child lives must work as well. It prints
// "forked" and ends with 0.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { PAGE = 4096, CHILD = 0x33, BEFORE = 0x44, LIMIT_S = 60 };

static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void die(const char *what) {
    fprintf(stderr, "fork_child: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void modify(struct ibv_qp_attr attr, int mask) {
    errno = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
    if (errno) die("modify QP");
}

static void connect_with_itself(struct ibv_context *context, int gid_index) {
    union ibv_gid gid;
    if (ibv_query_gid(context, 1, gid_index, &gid)) die("GID");
    modify((struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE},
           IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    modify((struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
                                .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
                                .ah_attr = {.is_global = 1, .port_num = 1,
                                            .grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64}}},
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
           IBV_QP_MIN_RNR_TIMER);
    modify((struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
                                .max_rd_atomic = 1},
           IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

// The first page of a region goes to its second one.
static void carry(struct ibv_mr *mr, int fill) {
    unsigned char *pages = mr->addr;
    memset(pages, fill, PAGE);
    struct ibv_sge sge = {(uintptr_t)pages, PAGE, mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
                             .num_sge = 1, .wr.rdma = {(uintptr_t)pages + PAGE, mr->rkey}};
    struct ibv_send_wr *bad;
    if ((errno = ibv_post_send(qp, &wr, &bad))) die("post");
    struct ibv_wc wc;
    time_t end = time(NULL) + LIMIT_S;
    int count;
    while (!(count = ibv_poll_cq(cq, 1, &wc)))
        if (time(NULL) > end) die("no completion");
    if (count < 0 || wc.status != IBV_WC_SUCCESS) die(ibv_wc_status_str(wc.status));
    for (int i = 0; i < PAGE; i++)
        if (pages[PAGE + i] != fill) die("the parent's page has not what the card was given");
}

static struct ibv_mr *region(struct ibv_pd *pd) {
    void *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) die("memory");
    memset(pages, BEFORE, 2 * PAGE);
    struct ibv_mr *mr = ibv_reg_mr(pd, pages, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!mr) die("region");
    return mr;
}

// Writes over its copy, says so, and at the end of `hear` looks whether anybody else has written into it.
static void live(unsigned char *pages, int say, int hear) {
    memset(pages, CHILD, 2 * PAGE);
    char byte = 1;
    if (write(say, &byte, 1) != 1 || read(hear, &byte, 1) < 0) _exit(2);
    for (int i = 0; i < 2 * PAGE; i++)
        if (pages[i] != CHILD) _exit(3);
    _exit(0);
}

int main(int argc, char **argv) {
    const char *device = "";
    int gid_index = 0;
    for (int option; (option = getopt(argc, argv, "d:x:")) > 0;)
        if (option == 'd') device = optarg;
        else gid_index = atoi(optarg);
    errno = ibv_fork_init();
    if (errno) die("ibv_fork_init");
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;
    for (int i = 0; list && list[i]; i++)
        if (!strcmp(ibv_get_device_name(list[i]), device)) context = ibv_open_device(list[i]);
    if (!context) die(device);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1}, .qp_type = IBV_QPT_RC};
    if (!pd || !cq || !(qp = ibv_create_qp(pd, &init))) die("resources");
    connect_with_itself(context, gid_index);
    struct ibv_mr *mr = region(pd);
    carry(mr, 1);

    int up[2], down[2];
    if (pipe(up) || pipe(down)) die("pipe");
    pid_t child = fork();
    if (child < 0) die("fork");
    if (!child) {
        close(down[1]);
        live(mr->addr, up[1], down[0]);
    }
    char byte;
    if (read(up[0], &byte, 1) != 1) die("the child");
    carry(mr, 2);
    struct ibv_mr *later = region(pd);
    carry(later, 3);
    carry(mr, 4);
    close(down[1]);
    int status;
    if (waitpid(child, &status, 0) != child || status) {
        fprintf(stderr, "fork_child: the child ended with %#x\n", status);
        return 1;
    }
    carry(mr, 5);
    if (ibv_dereg_mr(later) || ibv_dereg_mr(mr) || ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) ||
        ibv_close_device(context)) die("cleaning up");
    puts("forked");
    return 0;
}
