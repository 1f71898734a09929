// One end of a connection whose server receives from a shared receive queue of its id (rdma_create_srq): cm_srq, or
// cm_srq ADDRESS for the client. Says what the server has received; ends with 0 if all went well.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define PORT  "7471"
#define COUNT 8
#define BYTES 64

#define MUST(call)                                                                    \
	do {                                                                          \
		if (!(call)) {                                                        \
			printf("%s:%d: %s: %s\n", __func__, __LINE__, #call, strerror(errno)); \
			return 1;                                                     \
		}                                                                     \
	} while (0)

static char buffer[COUNT][BYTES];

static struct ibv_qp_init_attr queues(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1};

	attr.cap = (struct ibv_qp_cap){.max_send_wr = COUNT, .max_recv_wr = COUNT, .max_send_sge = 1, .max_recv_sge = 1};
	return attr;
}

static int server(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *where;
	struct rdma_cm_id *listener, *id;
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = COUNT, .max_sge = 1}};
	struct ibv_srq_init_attr_ex other = {.comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_TM};
	struct ibv_qp_init_attr attr = queues();
	struct ibv_wc wc;
	struct ibv_mr *mr;

	MUST(rdma_getaddrinfo(NULL, PORT, &hints, &where) == 0);
	MUST(rdma_create_ep(&listener, where, NULL, NULL) == 0);
	MUST(rdma_listen(listener, 1) == 0);
	puts("listens");
	fflush(stdout);
	MUST(rdma_get_request(listener, &id) == 0);
	MUST(rdma_create_srq_ex(id, &other) == -1 && errno == EOPNOTSUPP && !id->srq);
	MUST(rdma_create_srq(id, NULL, &srq) == 0 && id->srq && srq.attr.max_wr >= COUNT);
	// An id has one at most.
	MUST(rdma_create_srq(id, NULL, &srq) == -1 && errno == EINVAL);
	MUST(rdma_create_qp(id, NULL, &attr) == 0 && id->qp->srq == id->srq);
	MUST(mr = rdma_reg_msgs(id, buffer, sizeof(buffer)));
	for (long n = 0; n < COUNT; n++)
		MUST(rdma_post_recv(id, (void *)n, buffer[n], BYTES, mr) == 0);
	MUST(rdma_accept(id, NULL) == 0);
	for (long n = 0; n < COUNT; n++) {
		MUST(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)n);
		printf("received %s\n", buffer[n]);
	}
	rdma_disconnect(id);
	MUST(rdma_dereg_mr(mr) == 0);
	// With its QP and its SRQ.
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(where);
	return 0;
}

static int client(const char *address)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *where;
	struct ibv_qp_init_attr attr = queues();
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	struct ibv_mr *mr;

	MUST(rdma_getaddrinfo(address, PORT, &hints, &where) == 0);
	MUST(rdma_create_ep(&id, where, NULL, &attr) == 0);
	MUST(mr = rdma_reg_msgs(id, buffer, sizeof(buffer)));
	MUST(rdma_connect(id, NULL) == 0);
	for (int n = 0; n < COUNT; n++) {
		snprintf(buffer[n], BYTES, "message %d", n);
		MUST(rdma_post_send(id, NULL, buffer[n], BYTES, mr, 0) == 0);
		MUST(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	}
	rdma_disconnect(id);
	MUST(rdma_dereg_mr(mr) == 0);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(where);
	return 0;
}

int main(int argc, char **argv)
{
	return argc > 1 ? client(argv[1]) : server();
}
