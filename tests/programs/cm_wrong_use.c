// Every call of librdmacm with what no program should give it: NULL, an id that has been destroyed, memory that is no
// id, the wrong moment. Prints a line for each answer that is not the one expected; ends with 0 if there was none.
#include <errno.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define SELF "10.0.0.1"

static int wrong, asked;

static void expect(const char *what, long result, long wanted, int wanted_errno)
{
	asked++;
	if (result == wanted && (wanted != -1 || errno == wanted_errno))
		return;
	wrong++;
	printf("WRONG %s: %ld, errno %s; expected %ld, errno %s\n", what, result, strerror(errno), wanted,
	       wanted == -1 ? strerror(wanted_errno) : "any");
}

#define FAILS(error, call) (errno = 0, expect(#call, (long)(call), -1, error))
#define WORKS(call)        (errno = 0, expect(#call, (long)(call), 0, 0))
#define QUIET(call)        (asked++, (call))

static struct sockaddr_in address(const char *text, int port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, text, &sin.sin_addr);
	return sin;
}

// Calls that take an id, with one that is none.
static void calls_with(struct rdma_cm_id *id, int error)
{
	struct sockaddr_in to = address(SELF, 7471);
	struct sockaddr *addr = (struct sockaddr *)&to;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr_ex init_ex = {.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct rdma_conn_param param = {0};
	struct rdma_cm_join_mc_attr_ex join = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, .addr = addr};
	struct rdma_cm_id *out;
	struct ibv_ece ece = {0};
	uint8_t tos = 0;
	int mask;

	FAILS(error, rdma_migrate_id(id, NULL));
	FAILS(error, rdma_bind_addr(id, addr));
	FAILS(error, rdma_listen(id, 1));
	FAILS(error, rdma_resolve_addr(id, NULL, addr, 100));
	FAILS(error, rdma_resolve_route(id, 100));
	FAILS(error, rdma_create_qp(id, NULL, &init));
	FAILS(error, rdma_create_qp_ex(id, &init_ex));
	QUIET(rdma_destroy_qp(id));
	FAILS(error, rdma_init_qp_attr(id, &attr, &mask));
	FAILS(error, rdma_connect(id, &param));
	FAILS(error, rdma_accept(id, &param));
	FAILS(error, rdma_reject(id, NULL, 0));
	FAILS(error, rdma_reject_ece(id, NULL, 0));
	FAILS(error, rdma_establish(id));
	FAILS(error, rdma_disconnect(id));
	FAILS(error, rdma_notify(id, IBV_EVENT_COMM_EST));
	FAILS(error, rdma_get_request(id, &out));
	FAILS(error, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos));
	expect("rdma_get_src_port", rdma_get_src_port(id), 0, 0);
	expect("rdma_get_dst_port", rdma_get_dst_port(id), 0, 0);
	FAILS(error, rdma_join_multicast(id, addr, NULL));
	FAILS(error, rdma_join_multicast_ex(id, &join, NULL));
	FAILS(error, rdma_leave_multicast(id, addr));
	FAILS(error, rdma_create_srq(id, NULL, NULL));
	FAILS(error, rdma_create_srq_ex(id, NULL));
	QUIET(rdma_destroy_srq(id));
	FAILS(error, rdma_set_local_ece(id, &ece));
	FAILS(error, rdma_get_remote_ece(id, &ece));
	FAILS(error, rdma_destroy_id(id));
	QUIET(rdma_destroy_ep(id));
}

// The pointers beside the id.
static void null_arguments(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct rdma_cm_id *out;
	struct ibv_qp_attr attr;
	int mask;

	QUIET(rdma_destroy_event_channel(NULL));
	FAILS(EINVAL, rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP));
	FAILS(EINVAL, rdma_create_id(channel, &out, NULL, 0x7777));
	FAILS(EINVAL, rdma_bind_addr(id, NULL));
	FAILS(EINVAL, rdma_resolve_addr(id, NULL, NULL, 100));
	FAILS(EINVAL, rdma_create_qp(id, NULL, NULL));
	FAILS(EINVAL, rdma_create_qp_ex(id, NULL));
	FAILS(EINVAL, rdma_init_qp_attr(id, NULL, &mask));
	FAILS(EINVAL, rdma_init_qp_attr(id, &attr, NULL));
	FAILS(EINVAL, rdma_get_request(id, NULL));
	FAILS(EINVAL, rdma_get_cm_event(NULL, NULL));
	FAILS(EINVAL, rdma_get_cm_event(channel, NULL));
	FAILS(EINVAL, rdma_ack_cm_event(NULL));
	FAILS(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1));
	FAILS(EINVAL, rdma_join_multicast(id, NULL, NULL));
	FAILS(EINVAL, rdma_join_multicast_ex(id, NULL, NULL));
	FAILS(EINVAL, rdma_leave_multicast(id, NULL));
	FAILS(EINVAL, rdma_set_local_ece(id, NULL));
	FAILS(EINVAL, rdma_get_remote_ece(id, NULL));
	FAILS(EINVAL, rdma_getaddrinfo(NULL, NULL, NULL, NULL));
	FAILS(EINVAL, rdma_create_ep(NULL, NULL, NULL, NULL));
	FAILS(EINVAL, rdma_create_ep(&out, NULL, NULL, NULL));
	QUIET(rdma_freeaddrinfo(NULL));
	QUIET(rdma_free_devices(NULL));
	struct ibv_context **list = rdma_get_devices(NULL);
	expect("rdma_get_devices", list != NULL, 1, 0);
	rdma_free_devices(list);
	expect("rdma_event_str", strcmp(rdma_event_str(99), "UNKNOWN EVENT"), 0, 0);
}

// Steps before their time, twice, or too late.
static void wrong_moments(struct rdma_event_channel *channel)
{
	struct sockaddr_in self = address(SELF, 0), nobody = address("192.0.2.1", 7471), odd = {.sin_family = 77};
	struct sockaddr *addr = (struct sockaddr *)&self;
	struct rdma_conn_param param = {0};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	char data[256] = {0};
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	FAILS(EINVAL, rdma_resolve_route(id, 100));
	FAILS(EINVAL, rdma_connect(id, &param));
	FAILS(EINVAL, rdma_accept(id, &param));
	FAILS(EINVAL, rdma_reject(id, data, 1));
	FAILS(EINVAL, rdma_disconnect(id));
	FAILS(EINVAL, rdma_establish(id));
	FAILS(EINVAL, rdma_create_qp(id, NULL, &init));
	FAILS(EAFNOSUPPORT, rdma_bind_addr(id, (struct sockaddr *)&odd));
	FAILS(EADDRNOTAVAIL, rdma_bind_addr(id, (struct sockaddr *)&nobody));
	FAILS(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, data, 0));
	FAILS(ENOSYS, rdma_set_option(id, 77, RDMA_OPTION_ID_TOS, data, 1));
	WORKS(rdma_bind_addr(id, addr));
	FAILS(EINVAL, rdma_bind_addr(id, addr));
	WORKS(rdma_listen(id, 1));
	FAILS(EINVAL, rdma_listen(id, 1));
	FAILS(EINVAL, rdma_connect(id, &param));
	FAILS(EINVAL, rdma_resolve_addr(id, NULL, addr, 100));
	WORKS(rdma_destroy_id(id));
	FAILS(EINVAL, rdma_destroy_id(id));
}

int main(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	char *noise = calloc(1, 4096);
	struct rdma_cm_id *id, *gone;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) || rdma_create_id(channel, &gone, NULL, RDMA_PS_TCP)) {
		perror("the first calls");
		return 2;
	}
	calls_with(NULL, EINVAL);
	calls_with((struct rdma_cm_id *)noise, EINVAL);
	calls_with((struct rdma_cm_id *)8, EINVAL);
	rdma_destroy_id(gone);
	calls_with(gone, EINVAL);
	null_arguments(channel, id);
	wrong_moments(channel);
	WORKS(rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	free(noise);
	printf("%d calls, %d wrong answers\n", asked, wrong);
	return wrong != 0;
}
