// Every call of librdmacm with what no program should give it: NULL, an object that has been destroyed, one of another
// kind or of another open of the card, the wrong moment. cm_exhausted.c has those that find nothing left.
#include <stdlib.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "wrong_use.h"

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

// Channels, events, results and lists: gone, or something else.
static void others_with(void *object, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *out;

	QUIET(rdma_destroy_event_channel(object));
	FAILS(EINVAL, rdma_create_id(object, &out, NULL, RDMA_PS_TCP));
	FAILS(EINVAL, rdma_migrate_id(id, object));
	FAILS(EINVAL, rdma_get_cm_event(object, &event));
	FAILS(EINVAL, rdma_ack_cm_event(object));
	QUIET(rdma_freeaddrinfo(object));
	QUIET(rdma_free_devices(object));
}

static void closed(struct rdma_cm_id *id)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in self = address(SELF, 7471);
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_src_addr = (void *)&self, .ai_src_len = sizeof self};
	struct ibv_context **list = rdma_get_devices(NULL);
	struct rdma_addrinfo *info = NULL;
	struct rdma_cm_event *event;
	struct rdma_cm_id *own;

	kind = "closed";
	// An event that was acknowledged, of an id that is destroyed, on a channel that is closed.
	WORKS(rdma_create_id(channel, &own, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addr(own, NULL, (struct sockaddr *)&self, 100));
	WORKS(rdma_get_cm_event(channel, &event));
	WORKS(rdma_ack_cm_event(event));
	others_with(event, id);
	WORKS(rdma_destroy_id(own));
	calls_with(own, EINVAL);
	others_with(own, id);
	rdma_destroy_event_channel(channel);
	others_with(channel, id);
	WORKS(rdma_getaddrinfo(NULL, NULL, &hints, &info));
	rdma_freeaddrinfo(info);
	others_with(info, id);
	rdma_free_devices(list);
	others_with(list, id);
	kind = "moment";
}

// PD, CQ and SRQ of another open of the card: that of the id is the library's own.
static void of_another_open(struct rdma_cm_id *bound)
{
	struct ibv_context *context = ibv_open_device(bound->verbs->device);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_srq_init_attr queue = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &queue);
	struct ibv_qp_cap cap = {1, 1, 1, 1, 0};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = cap}, own = init, with = init;
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_RC, .cap = cap, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};
	struct ibv_srq_init_attr_ex srq_ex = {.attr = queue.attr, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd};

	expect("ibv_open_device", pd && cq && srq && context != bound->verbs, 1, 0);
	own.send_cq = own.recv_cq = cq;
	FAILS(EINVAL, rdma_create_qp(bound, pd, &init));
	FAILS(EINVAL, rdma_create_qp(bound, pd, &own));
	own.send_cq = own.recv_cq = cq;
	FAILS(EINVAL, rdma_create_qp(bound, NULL, &own));
	with.srq = srq;
	FAILS(EINVAL, rdma_create_qp(bound, NULL, &with));
	FAILS(EINVAL, rdma_create_qp(bound, (struct ibv_pd *)bound, &init));
	FAILS(EINVAL, rdma_create_qp_ex(bound, &ex));
	FAILS(EINVAL, rdma_create_srq(bound, pd, &queue));
	FAILS(EINVAL, rdma_create_srq(bound, (struct ibv_pd *)bound, &queue));
	FAILS(EINVAL, rdma_create_srq_ex(bound, &srq_ex));
	expect("nothing is left of it", !bound->qp && !bound->srq && !bound->send_cq && !bound->recv_cq_channel, 1, 0);
	WORKS(rdma_create_qp(bound, NULL, &init));
	rdma_destroy_qp(bound);
	WORKS(ibv_destroy_srq(srq) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(context));
}

static void foreign(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct sockaddr_in self = address(SELF, 0);
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_src_addr = (void *)&self, .ai_src_len = sizeof self};
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct ibv_context **list = rdma_get_devices(NULL);
	char *noise = calloc(1, 4096);
	struct rdma_addrinfo *info = NULL, active = {.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}};
	struct rdma_cm_event *event;
	struct rdma_cm_id *bound, *out;

	kind = "foreign";
	WORKS(rdma_getaddrinfo(NULL, NULL, &hints, &info));
	WORKS(rdma_create_id(other, &bound, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addr(bound, NULL, (struct sockaddr *)&self, 100));
	WORKS(rdma_get_cm_event(other, &event));
	void *const none[] = {noise, (void *)8, channel, other, event, info, list, bound->verbs, bound->pd};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		calls_with(none[i], EINVAL);
	void *const neither[] = {noise, (void *)8, id, bound->verbs, bound->pd};
	for (size_t i = 0; i < sizeof neither / sizeof *neither; i++)
		others_with(neither[i], id);
	// Each is something, but not this.
	FAILS(EINVAL, rdma_migrate_id(id, (void *)event));
	FAILS(EINVAL, rdma_get_cm_event((void *)event, &event));
	FAILS(EINVAL, rdma_ack_cm_event((void *)channel));
	QUIET(rdma_freeaddrinfo((void *)list));
	QUIET(rdma_free_devices((void *)info));
	QUIET(rdma_destroy_event_channel((void *)event));
	WORKS(rdma_ack_cm_event(event));
	of_another_open(bound);
	// The address of nobody's card, and a PD that is none.
	active.ai_dst_addr = (struct sockaddr *)&self;
	active.ai_dst_len = sizeof self;
	FAILS(EINVAL, rdma_create_ep(&out, &active, (struct ibv_pd *)noise, &init));
	rdma_freeaddrinfo(info);
	rdma_free_devices(list);
	WORKS(rdma_destroy_id(bound));
	rdma_destroy_event_channel(other);
	free(noise);
	kind = "moment";
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
	struct rdma_cm_id *id, *gone;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) || rdma_create_id(channel, &gone, NULL, RDMA_PS_TCP)) {
		perror("the first calls");
		return 2;
	}
	kind = "null";
	calls_with(NULL, EINVAL);
	null_arguments(channel, id);
	kind = "moment";
	rdma_destroy_id(gone);
	closed(id);
	foreign(channel, id);
	wrong_moments(channel);
	WORKS(rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	printf("%d calls, %d wrong answers\n", asked, wrong);
	return wrong != 0;
}
