// How long a program takes until it can work: it opens a card, registers regions, makes QPs, and brings them to RTS.
//
//   gcc -O2 -o target/set_up tests/programs/set_up.c -libverbs
//   target/release/hca run -- target/set_up 1000 1000 [CONNECT]
//
// Prints wall time of every step; with CONNECT the QPs are connected, each with itself. docs/programs.md has figures.
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REGION_BYTES 65536

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static double start_ms;

static void step(const char *what, int count) {
    double ms = now_ms() - start_ms;
    printf("%-28s %8.1f ms  %8.1f us each\n", what, ms, ms * 1e3 / count);
    start_ms = now_ms();
}

static void *must(void *object, const char *what) {
    if (!object) {
        perror(what);
        exit(1);
    }
    return object;
}

static void zero(int result, const char *what) {
    if (result) {
        fprintf(stderr, "%s: %s\n", what, strerror(result));
        exit(1);
    }
}

static void to_init(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    zero(ibv_modify_qp(qp, &attr, mask), "to INIT");
}

static void to_rtr(struct ibv_qp *qp, union ibv_gid gid, uint16_t lid) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .dlid = lid, .port_num = 1,
            .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 64}}};
    zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "to RTR");
}

static void to_rts(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
        | IBV_QP_MAX_QP_RD_ATOMIC), "to RTS");
}

int main(int argc, char **argv) {
    int qps = argc > 1 ? atoi(argv[1]) : 1000, mrs = argc > 2 ? atoi(argv[2]) : 1000;
    double begin_ms = start_ms = now_ms();
    struct ibv_device **list = must(ibv_get_device_list(NULL), "ibv_get_device_list");
    struct ibv_context *context = must(ibv_open_device(must(list[0], "no device")), "ibv_open_device");
    ibv_free_device_list(list);
    step("ibv_open_device", 1);
    struct ibv_pd *pd = must(ibv_alloc_pd(context), "ibv_alloc_pd");
    struct ibv_cq *cq = must(ibv_create_cq(context, 1024, NULL, NULL, 0), "ibv_create_cq");
    step("ibv_alloc_pd, ibv_create_cq", 1);
    char *memory = must(aligned_alloc(4096, (size_t)mrs * REGION_BYTES), "memory");
    struct ibv_mr **mr = must(calloc(mrs, sizeof *mr), "memory");
    start_ms = now_ms();
    for (int i = 0; i < mrs; i++)
        mr[i] = must(ibv_reg_mr(pd, memory + (size_t)i * REGION_BYTES, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE),
            "ibv_reg_mr");
    step("ibv_reg_mr", mrs);
    struct ibv_qp **qp = must(calloc(qps, sizeof *qp), "memory");
    for (int i = 0; i < qps; i++) {
        struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
        qp[i] = must(ibv_create_qp(pd, &attr), "ibv_create_qp");
    }
    step("ibv_create_qp", qps);
    if (argc > 3) {
        union ibv_gid gid;
        struct ibv_port_attr port;
        zero(ibv_query_gid(context, 1, 1, &gid), "ibv_query_gid");
        zero(ibv_query_port(context, 1, &port), "ibv_query_port");
        for (int i = 0; i < qps; i++) to_init(qp[i]);
        step("ibv_modify_qp to INIT", qps);
        for (int i = 0; i < qps; i++) to_rtr(qp[i], gid, port.lid);
        step("ibv_modify_qp to RTR", qps);
        for (int i = 0; i < qps; i++) to_rts(qp[i]);
        step("ibv_modify_qp to RTS", qps);
    }
    printf("%-28s %8.1f ms\n", "up after", now_ms() - begin_ms);
    start_ms = now_ms();
    for (int i = 0; i < qps; i++) zero(ibv_destroy_qp(qp[i]), "ibv_destroy_qp");
    step("ibv_destroy_qp", qps);
    for (int i = 0; i < mrs; i++) zero(ibv_dereg_mr(mr[i]), "ibv_dereg_mr");
    step("ibv_dereg_mr", mrs);
    zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
    zero(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
    zero(ibv_close_device(context), "ibv_close_device");
    return 0;
}
